//! Shell text as commands with their words, read strictly: quotes, substitutions, redirections,
//! here-documents. Called by `command`. Hand-written, since the text is a model's and a parser in
//! C would crash this process on some of it.
//! Never guesses: what it does not understand for certain makes the whole text unreadable.

/// A word; `None` when it is known only at run time.
pub(super) type Word = Option<String>;

/// Most commands of one text.
const MAX_COMMANDS: usize = 4_096;

/// Substitutions within substitutions.
const MAX_DEPTH: u32 = 40;

/// Words after which another command begins.
const PREFIXES: &[&str] = &[
    "!", "do", "done", "elif", "else", "esac", "fi", "if", "in", "then", "until", "while", "{", "}",
];

/// Words that begin something else than a command.
const RESERVED: &[&str] = &["[[", "]]", "case", "coproc", "for", "function", "select", "time"];

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Every command, also within others.
    pub(super) commands: Vec<Vec<Word>>,
    /// Scripts within backticks, not read yet.
    pub(super) inner: Vec<String>,
    /// Files that redirections write to.
    pub(super) written: Vec<Word>,
    /// Whether there is anything but one command with its words.
    is_odd: bool,
}

impl Script {
    /// The words, if the text is one plain command and nothing else.
    pub(super) fn plain(&self) -> Option<Vec<String>> {
        match self.commands.as_slice() {
            [words] if !self.is_odd => {
                let words: Vec<String> = words.iter().cloned().collect::<Option<_>>()?;
                let is_command = words
                    .first()
                    .is_some_and(|word| !word.is_empty() && !RESERVED.contains(&word.as_str()));
                is_command.then_some(words)
            }
            _ => None,
        }
    }
}

/// Reads a text; `None` for one that is not understood.
pub(super) fn read(text: &str) -> Option<Script> {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        depth: 0,
        bodies: Vec::new(),
        script: Script::default(),
    };
    reader.list(None)?;
    reader.script.is_odd |= text.contains(['\r', '\n']);
    reader.bodies.is_empty().then_some(reader.script)
}

/// A word as it is written in a key: quoted where it has to be.
pub(super) fn written(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c) || !c.is_ascii();
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    depth: u32,
    /// Here-documents whose bodies come behind the next line end.
    bodies: Vec<Body>,
    script: Script,
}

struct Body {
    delimiter: String,
    is_quoted: bool,
    strips_tabs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirect {
    In,
    Out,
    Copy,
    HereString,
    HereDocument { strips_tabs: bool },
}

/// A word in the making.
#[derive(Default)]
struct Draft {
    text: String,
    is_unknown: bool,
    is_quoted: bool,
    is_assignment: bool,
    has_brace: bool,
}

impl Draft {
    fn into_word(self) -> Word {
        let expands = self.has_brace && (self.text.contains(',') || self.text.contains(".."));
        (!self.is_unknown && !expands).then_some(self.text)
    }
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Commands up to the end, or to the parenthesis that closes them.
    fn list(&mut self, closer: Option<char>) -> Option<()> {
        let mut words: Vec<Draft> = Vec::new();
        let mut redirect: Option<Redirect> = None;
        loop {
            let Some(c) = self.peek(0) else {
                self.end(&mut words, redirect)?;
                return closer.is_none().then_some(());
            };
            let next = self.peek(1);
            match c {
                ' ' | '\t' => self.at += 1,
                '#' => {
                    self.script.is_odd = true;
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '&' if next == Some('>') => redirect = Some(self.operator(redirect)?),
                '\n' | ';' | '&' | '|' => {
                    self.at += 1;
                    self.script.is_odd = true;
                    self.end(&mut words, redirect)?;
                    if c == '\n' {
                        self.skip_bodies()?;
                    }
                }
                '(' if next == Some('(') => return None,
                '(' => {
                    self.at += 1;
                    self.end(&mut words, redirect)?;
                    self.nested()?;
                }
                ')' => {
                    self.at += 1;
                    self.end(&mut words, redirect)?;
                    if closer == Some(')') {
                        return Some(());
                    }
                    self.script.is_odd = true;
                }
                '<' | '>' if next != Some('(') => redirect = Some(self.operator(redirect)?),
                _ => {
                    let word = self.word()?;
                    let is_number = !word.is_quoted && word.text.chars().all(|c| c.is_ascii_digit());
                    match redirect.take() {
                        Some(redirect) => self.target(redirect, word)?,
                        // The descriptor of a redirection.
                        None if is_number && !word.is_unknown && matches!(self.peek(0), Some('<' | '>')) => {}
                        None => words.push(word),
                    }
                }
            }
        }
    }

    /// Keeps the command that ends here.
    fn end(&mut self, words: &mut Vec<Draft>, redirect: Option<Redirect>) -> Option<()> {
        if redirect.is_some() || self.script.commands.len() >= MAX_COMMANDS {
            return None;
        }
        let words = std::mem::take(words);
        let skips = |word: &&Draft| word.is_assignment || (!word.is_unknown && PREFIXES.contains(&word.text.as_str()));
        let skipped = words.iter().take_while(skips).count();
        self.script.is_odd |= skipped > 0;
        let words: Vec<Word> = words.into_iter().skip(skipped).map(Draft::into_word).collect();
        // The parentheses of its patterns would be taken for others.
        if self.depth > 0 && words.first().is_some_and(|word| word.as_deref() == Some("case")) {
            return None;
        }
        if !words.is_empty() {
            self.script.commands.push(words);
        }
        Some(())
    }

    /// Commands in parentheses, of which the first is read already.
    fn nested(&mut self) -> Option<()> {
        self.script.is_odd = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.list(Some(')'))?;
        self.depth -= 1;
        Some(())
    }

    /// The operator of a redirection.
    fn operator(&mut self, before: Option<Redirect>) -> Option<Redirect> {
        if before.is_some() {
            return None;
        }
        let rest: String = self.chars[self.at..].iter().take(4).collect();
        let operators = [
            ("&>>", Redirect::Out),
            ("&>", Redirect::Out),
            ("<<<", Redirect::HereString),
            ("<<-", Redirect::HereDocument { strips_tabs: true }),
            ("<<", Redirect::HereDocument { strips_tabs: false }),
            ("<&", Redirect::Copy),
            ("<>", Redirect::Out),
            ("<", Redirect::In),
            (">>", Redirect::Out),
            (">&", Redirect::Copy),
            (">|", Redirect::Out),
            (">", Redirect::Out),
        ];
        let (written, redirect) = operators.into_iter().find(|(written, _)| rest.starts_with(written))?;
        self.at += written.len();
        Some(redirect)
    }

    /// What stands behind the operator.
    fn target(&mut self, redirect: Redirect, word: Draft) -> Option<()> {
        let is_quoted = word.is_quoted;
        let target = word.into_word();
        let text = target.as_deref();
        let is_descriptor = text.is_some_and(|text| text == "-" || text.chars().all(|c| c.is_ascii_digit()));
        match redirect {
            Redirect::Out | Redirect::In | Redirect::Copy if text == Some("/dev/null") => {}
            Redirect::Copy if is_descriptor => {}
            Redirect::In | Redirect::HereString => self.script.is_odd = true,
            Redirect::Out | Redirect::Copy => {
                self.script.is_odd = true;
                self.script.written.push(target);
            }
            Redirect::HereDocument { strips_tabs } => {
                self.script.is_odd = true;
                self.bodies.push(Body {
                    delimiter: target?,
                    is_quoted,
                    strips_tabs,
                });
            }
        }
        Some(())
    }

    /// The bodies of here-documents. One in which something is substituted is not read.
    fn skip_bodies(&mut self) -> Option<()> {
        for body in std::mem::take(&mut self.bodies) {
            loop {
                let rest = self.chars.get(self.at..).filter(|rest| !rest.is_empty())?;
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at = (self.at + length + 1).min(self.chars.len());
                let bare = if body.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if bare == body.delimiter {
                    break;
                }
                if !body.is_quoted && (line.contains('`') || line.contains("$(")) {
                    return None;
                }
            }
        }
        Some(())
    }

    fn word(&mut self) -> Option<Draft> {
        let mut word = Draft::default();
        if matches!(self.peek(0), Some('<' | '>')) {
            self.at += 2;
            self.nested()?;
            word.is_unknown = true;
        }
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.until_quote(&mut word.text)?;
                }
                '"' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    let escaped = self.peek(1)?;
                    self.at += 2;
                    if escaped != '\n' {
                        word.is_quoted = true;
                        word.text.push(escaped);
                    }
                }
                '`' => {
                    word.is_unknown = true;
                    self.backticks()?;
                }
                '$' => {
                    word.is_unknown = true;
                    self.expansion()?;
                }
                c => {
                    // What a pattern at the beginning becomes may be an option.
                    word.is_unknown |= word.text.is_empty() && matches!(c, '*' | '?' | '[');
                    word.has_brace |= c == '{';
                    let is_plain = !word.is_quoted && !word.is_unknown;
                    word.is_assignment |= c == '=' && is_plain && is_name(&word.text);
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        Some(word)
    }

    fn until_quote(&mut self, text: &mut String) -> Option<()> {
        loop {
            let c = self.peek(0)?;
            self.at += 1;
            if c == '\'' {
                return Some(());
            }
            text.push(c);
        }
    }

    fn double_quoted(&mut self, word: &mut Draft) -> Option<()> {
        loop {
            let (c, next) = (self.peek(0)?, self.peek(1));
            match (c, next) {
                ('"', _) => {
                    self.at += 1;
                    return Some(());
                }
                ('\\', Some('\n')) => self.at += 2,
                ('\\', Some(escaped @ ('$' | '`' | '"' | '\\'))) => {
                    word.text.push(escaped);
                    self.at += 2;
                }
                ('`', _) => {
                    word.is_unknown = true;
                    self.backticks()?;
                }
                ('$', Some('"' | '\'')) => {
                    word.is_unknown = true;
                    self.at += 1;
                }
                ('$', _) => {
                    word.is_unknown = true;
                    self.expansion()?;
                }
                (c, _) => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// What begins with a dollar sign.
    fn expansion(&mut self) -> Option<()> {
        let (next, after) = (self.peek(1), self.peek(2));
        match next {
            Some('(') if after == Some('(') => {
                self.at += 3;
                self.arithmetic()
            }
            Some('(') => {
                self.at += 2;
                self.nested()
            }
            Some('{') => {
                self.at += 2;
                self.parameter()
            }
            Some('\'') => {
                self.at += 2;
                loop {
                    match self.peek(0)? {
                        '\\' => self.at += 2,
                        '\'' => {
                            self.at += 1;
                            return Some(());
                        }
                        _ => self.at += 1,
                    }
                }
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.at += 1;
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
                Some(())
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 2;
                Some(())
            }
            // The quote of `$"…"` is read as any other.
            _ => {
                self.at += 1;
                Some(())
            }
        }
    }

    /// `$((…))` without parentheses, quotes and substitutions in it; others may be commands.
    fn arithmetic(&mut self) -> Option<()> {
        loop {
            match (self.peek(0)?, self.peek(1)) {
                (')', Some(')')) => {
                    self.at += 2;
                    return Some(());
                }
                ('(' | ')' | '\'' | '"' | '`' | '\\', _) => return None,
                _ => self.at += 1,
            }
        }
    }

    /// `${…}`. Quotes in it mean different things in different places.
    fn parameter(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        loop {
            match (self.peek(0)?, self.peek(1)) {
                ('}', _) => break,
                ('\'' | '"', _) | ('$', Some('\'' | '"')) => return None,
                ('\\', _) => self.at += 2,
                ('`', _) => self.backticks()?,
                ('$', _) => self.expansion()?,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.depth -= 1;
        Some(())
    }

    fn backticks(&mut self) -> Option<()> {
        self.script.is_odd = true;
        self.at += 1;
        let mut inner = String::new();
        loop {
            match (self.peek(0)?, self.peek(1)) {
                ('`', _) => break,
                ('\\', Some(escaped @ ('`' | '\\' | '$'))) => {
                    inner.push(escaped);
                    self.at += 2;
                }
                (c, _) => {
                    inner.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        self.script.inner.push(inner);
        Some(())
    }
}

/// Whether text is the name of a variable, or of one of its elements.
fn is_name(text: &str) -> bool {
    let name = text.strip_suffix('+').unwrap_or(text);
    let name = name.split('[').next().unwrap_or_default();
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
