//! The repository's own format commands, run in the agent's workspace once it has finished and
//! before the change is checked, so that what they change is part of the change.
//! Never fails a run: a formatter that does not work is noted, and the checks judge the result.

use super::{ChangeSet, Desk};
use crate::event::RunEvent;
use crate::job::JobError;
use crate::phrase::run as words;
use crate::sandbox::{Exec, Exit};
use crate::text;

/// Stands in a command for the changed files.
const FILES: &str = "{files}";
/// Most bytes of paths on a command line.
const MAX_FILES_BYTES: usize = 64 * 1024;

impl Desk<'_> {
    /// Runs the commands; tells whether any ran, so that the change has to be read anew.
    pub(super) async fn format(&self, commands: &[String], change: &ChangeSet) -> Result<bool, JobError> {
        let changes = change.import.changes.iter();
        let files: Vec<&str> = changes
            .filter(|change| change.status != 'D')
            .map(|change| change.path.as_str())
            .collect();
        let mut ran_any = false;
        for command in commands {
            let Some(line) = line_of(command, &files) else { continue };
            let ran = self.sandbox.exec(&Exec::shell(line), self.cancel).await?;
            ran_any = true;
            let how = match &ran.exit {
                Exit::Code(0) => continue,
                Exit::Cancelled => break,
                Exit::Code(code) => format!("exit {code}"),
                Exit::Signal(signal) => format!("signal {signal}"),
                Exit::Limit(limit) => limit.clone(),
            };
            let text = words::format_failed(
                self.ports.language,
                &text::code_span(&text::cap_chars(command, 160)),
                &how,
            );
            self.recorder.record(RunEvent::Noted { text }).await?;
        }
        Ok(ran_any)
    }
}

/// The command with the changed files in it; nothing where it wants files and there are none.
fn line_of(command: &str, files: &[&str]) -> Option<String> {
    if !command.contains(FILES) {
        return Some(command.to_owned());
    }
    let mut quoted = String::new();
    for file in files {
        // A name that begins with a dash is no option.
        let path = format!("./{}", file.replace('\'', r"'\''"));
        if quoted.len() + path.len() > MAX_FILES_BYTES {
            break;
        }
        quoted.push_str(&format!(" '{path}'"));
    }
    (!quoted.is_empty()).then(|| command.replace(FILES, quoted.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn commands_get_the_changed_files() {
        assert_eq!(line_of("cargo fmt", &["a.rs"]).unwrap(), "cargo fmt");
        assert_eq!(
            line_of("fmt {files} -q", &["a.rs", "-x"]).unwrap(),
            "fmt './a.rs' './-x' -q"
        );
        assert_eq!(
            line_of("fmt {files}", &["it's; rm -rf ~"]).unwrap(),
            r"fmt './it'\''s; rm -rf ~'"
        );
        assert_eq!(line_of("fmt {files}", &[]), None);
        let many = vec!["x".repeat(1_000); 100];
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(line_of("fmt {files}", &many).unwrap().len() < 66_000);
    }
}
