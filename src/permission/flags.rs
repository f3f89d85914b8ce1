//! Programs that run other programs: by their nature (`env`, `sh -c`) or by one of their options
//! (`rg --pre`). Called by `command`. Never complete, which is why the sandbox is the boundary;
//! a line with one of these is just not taken for the harmless command that it begins with.

use super::shell::Word;

/// What they run stands in their own arguments.
const WRAPPERS: &[&str] = &[
    "ash",
    "bash",
    "busybox",
    "builtin",
    "chroot",
    "command",
    "coproc",
    "csh",
    "dash",
    "doas",
    "entr",
    "env",
    "eval",
    "exec",
    "fish",
    "flock",
    "function",
    "ionice",
    "ksh",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "runuser",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tcsh",
    "time",
    "timeout",
    "trap",
    "unshare",
    "watch",
    "xargs",
    "zsh",
];

/// Shells: `-c` names a script, and without arguments they read one.
const SHELLS: &[&str] = &["ash", "bash", "csh", "dash", "fish", "ksh", "sh", "zsh"];

/// Their arguments are programs in a language that can start others.
const LANGUAGES: &[&str] = &[
    "awk", "ed", "emacs", "ex", "gawk", "less", "mawk", "more", "nawk", "sed", "vi", "vim",
];

/// Options that name a program to run. `--long` covers its abbreviations, `-x` every cluster that
/// holds the letter, `-word` the word with one or two dashes.
const OPTIONS: &[(&str, &[&str])] = &[
    ("ack", &["--pager"]),
    ("ag", &["--pager"]),
    ("apt", &["-o", "--option"]),
    ("apt-get", &["-o", "--option"]),
    ("bat", &["--pager"]),
    ("cargo", &["--config"]),
    ("curl", &["-K", "--config"]),
    ("fd", &["-x", "-X", "--exec"]),
    ("find", &["-exec", "-execdir", "-ok", "-okdir"]),
    ("gcc", &["-wrapper", "-fplugin", "-specs", "-B"]),
    (
        "git",
        &[
            "-c",
            "-C",
            "-O",
            "-u",
            "-x",
            "--config-env",
            "--exec",
            "--exec-path",
            "--ext-diff",
            "--extcmd",
            "--git-dir",
            "--open-files-in-pager",
            "--receive-pack",
            "--template",
            "--textconv",
            "--upload-pack",
            "--work-tree",
        ],
    ),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("make", &["-f", "--eval", "--file", "--makefile"]),
    ("man", &["-P", "-H", "--pager", "--html"]),
    ("npm", &["--script-shell"]),
    ("pnpm", &["--script-shell"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("rustc", &["-C", "--codegen"]),
    ("scp", &["-o", "-S", "-F"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("sqlite3", &["-cmd", "-init"]),
    (
        "tar",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("wget", &["--use-askpass", "-e", "--execute", "--config"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("zypper", &["-c", "--config"]),
];

/// Subcommands that run programs.
const SUBCOMMANDS: &[(&str, &[&str])] = &[(
    "git",
    &["bisect", "difftool", "filter-branch", "mergetool", "submodule"],
)];

/// Whether a command may run a program that is not its first word.
pub(super) fn runs_others(program: &str, arguments: &[String]) -> bool {
    let name = base(program);
    if is_wrapper(name) || LANGUAGES.contains(&name) {
        return true;
    }
    let by_option = OPTIONS
        .iter()
        .filter(|(owner, _)| *owner == name)
        .any(|(_, flags)| arguments.iter().any(|word| flags.iter().any(|flag| names(word, flag))));
    let by_word = SUBCOMMANDS
        .iter()
        .filter(|(owner, _)| *owner == name)
        .any(|(_, words)| arguments.iter().any(|word| words.contains(&word.as_str())));
    by_option || by_word
}

/// Whether a word is an option or an abbreviation of it.
fn names(word: &str, flag: &str) -> bool {
    let head = word.split('=').next().unwrap_or_default();
    match (flag.strip_prefix("--"), flag.strip_prefix('-')) {
        // `--` alone ends the options; every longer beginning is an abbreviation.
        (Some(long), _) => head
            .strip_prefix("--")
            .is_some_and(|given| !given.is_empty() && long.starts_with(given)),
        (None, Some(letter)) if letter.len() == 1 => {
            word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
        }
        (None, Some(name)) => head.trim_start_matches('-') == name && word.starts_with('-'),
        (None, None) => false,
    }
}

/// Whether a program runs what stands in its arguments.
pub(super) fn is_wrapper(program: &str) -> bool {
    WRAPPERS.contains(&program) || program == "."
}

/// Whether a program is a shell.
pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// What `find` and its like run: the words behind the options that say so.
pub(super) fn behind_exec(words: &[Word]) -> Vec<&[Word]> {
    let starts = |word: &Word| {
        word.as_deref()
            .is_some_and(|word| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec"))
    };
    (1..words.len())
        .filter(|at| starts(&words[*at]))
        .map(|at| &words[at + 1..])
        .collect()
}

/// The last part of a program's path.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
