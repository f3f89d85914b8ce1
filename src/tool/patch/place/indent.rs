//! How far the indentation of a file is from that of a patch for it. Called by `place`. Never
//! changes a line whose indentation the patch did not show elsewhere.

use std::collections::BTreeMap;

/// From the indentation of the patch to the file's.
#[derive(Debug, Default)]
pub(super) struct Shift {
    known: BTreeMap<String, String>,
    /// The same piece before every line: in the file (added) or in the patch (taken away).
    added: Option<String>,
    taken: Option<String>,
}

impl Shift {
    /// Learns from lines that are the same but for white space.
    pub(super) fn between<'l>(patch: impl Iterator<Item = &'l str>, file: &[&str]) -> Self {
        let pairs: Vec<(&str, &str)> = patch
            .zip(file)
            .filter(|(wanted, _)| !wanted.trim().is_empty())
            .map(|(wanted, there)| (indentation(wanted), indentation(there)))
            .collect();
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for (wanted, there) in &pairs {
            known.entry((*wanted).to_owned()).or_insert_with(|| (*there).to_owned());
        }
        let same = |mut all: Box<dyn Iterator<Item = Option<&str>> + '_>| {
            let first = all.next()??;
            all.all(|other| other == Some(first)).then(|| first.to_owned())
        };
        Self {
            known,
            added: same(Box::new(pairs.iter().map(|(wanted, there)| there.strip_suffix(wanted)))),
            taken: same(Box::new(pairs.iter().map(|(wanted, there)| wanted.strip_suffix(there)))),
        }
    }

    /// A new line with the file's indentation.
    pub(super) fn applied(&self, line: &str) -> String {
        let own = indentation(line);
        let rest = &line[own.len()..];
        if rest.is_empty() {
            return line.to_owned();
        }
        if let Some(there) = self.known.get(own) {
            return format!("{there}{rest}");
        }
        if let Some(added) = &self.added {
            return format!("{added}{line}");
        }
        if let Some(less) = self.taken.as_deref().and_then(|taken| line.strip_prefix(taken)) {
            return less.to_owned();
        }
        line.to_owned()
    }
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &[&str], file: &[&str], line: &str, expected: &str) {
        let shift = Shift::between(patch.iter().copied(), file);
        assert_eq!(shift.applied(line), expected);
    }

    #[test]
    fn g14_new_lines_get_the_files_indentation() {
        check(&["a", "  b"], &["    a", "      b"], "  c", "      c");
        check(&["a", "  b"], &["    a", "      b"], "    d", "        d");
        check(&["    a", "        b"], &["\ta", "\t\tb"], "        c", "\t\tc");
        check(&["  a"], &["a"], "    c", "  c");
        check(&["a"], &["a"], "  c", "  c");
        check(&[], &[], "  c", "  c");
    }
}
