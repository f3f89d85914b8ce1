//! The environment as the agent will find it: system, user and tool chains, asked once inside the
//! sandbox by one bounded command. Called by `run` before the agent begins. Never fails a run: what
//! cannot be found out is left out.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::sandbox::{Exec, Sandbox};
use crate::text;

/// Longest time of the look; every program has a second of its own within it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Most lines, and most characters of one.
const MAX_LINES: usize = 20;
const MAX_LINE_CHARS: usize = 120;

/// Asks all at once, so that slow ones do not add up; those that take half a second of a processor to
/// say their version are asked where the repository looks like theirs.
const LOOK: &str = r#"
seen=$(mktemp -d) || exit 0
ask() {
  command -v "$2" >/dev/null 2>&1 || return 0
  name=$1; shift
  { said=$(timeout 3 "$@" 2>&1 </dev/null) && printf '%s\n' "$said" | grep -m1 '[0-9]' > "$seen/$name"; } &
}
near() {
  for at; do [ -e "$at" ] && return 0; done
  return 1
}
ask 10git git --version
ask 20cargo cargo --version
ask 21rustc rustc --version
ask 30python python3 --version
ask 31pytest python3 -c 'import pytest; print("pytest", pytest.__version__)'
ask 40node node --version
near package.json */package.json && ask 41npm npm --version
ask 50go go version
near pom.xml */pom.xml *.gradle* */*.gradle* *.java */*.java src/*.java && ask 60java java -version
near pom.xml */pom.xml && ask 61maven mvn --version
near *.gradle* */*.gradle* && ask 62gradle gradle --version
ask 70gcc gcc --version
ask 71clang clang --version
ask 72make make --version
ask 73cmake cmake --version
ask 80ruby ruby --version
ask 81php php --version
near *.sln */*.sln *.??proj */*.??proj global.json && ask 82dotnet dotnet --version
wait
os=$(. /etc/os-release 2>/dev/null; printf '%s' "${PRETTY_NAME:-$(uname -s)}")
echo "$os on $(uname -m), user $(id -un 2>/dev/null || id -u), $(nproc) processors"
[ -z "$https_proxy" ] || echo 'network: only hosts that the operator listed, through the proxy in $https_proxy'
while read -r _ place kind options _; do
  [ "$place $kind" = '/workspace overlay' ] || continue
  case $options in *redirect_dir=on*) ;; *) echo 'move folders of the checkout with `mv`: `git mv` cannot rename them here' ;; esac
done < /proc/self/mounts
for file in "$seen"/*; do
  [ -s "$file" ] || continue
  name=${file##*/}; printf '%s: ' "${name#??}"; cat "$file"
done
rm -rf "$seen"
"#;

/// The system and the tool chains, one a line.
pub(super) async fn look(sandbox: &Arc<dyn Sandbox>, cancel: &CancellationToken) -> Vec<String> {
    let exec = Exec {
        timeout: Some(TIMEOUT),
        ..Exec::shell(LOOK)
    };
    match sandbox.exec(&exec, cancel).await {
        Ok(output) if output.code() == Some(0) => lines(&output.output),
        _ => Vec::new(),
    }
}

fn lines(output: &str) -> Vec<String> {
    let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let named_twice = |line: &str| {
        // `cargo: cargo 1.95.0` says the name once too often.
        let (name, rest) = line.split_once(": ")?;
        let rest = rest.trim();
        rest.to_lowercase()
            .starts_with(&name.to_lowercase())
            .then(|| rest.to_owned())
    };
    lines
        .map(|line| named_twice(line).unwrap_or_else(|| line.to_owned()))
        .map(|line| text::cap_chars(&text::reveal(&line), MAX_LINE_CHARS))
        .take(MAX_LINES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The look itself, with a Maven that says its version at once and no other program of ours.
    #[test]
    fn slow_programs_are_asked_where_the_repository_is_theirs() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (programs, checkout) = (folder.path().join("bin"), folder.path().join("checkout"));
        std::fs::create_dir_all(checkout.join("part")).unwrap();
        std::fs::create_dir(&programs).unwrap();
        let maven = programs.join("mvn");
        std::fs::write(&maven, "#!/bin/sh\necho Apache Maven 3.9.9\n").unwrap();
        std::fs::set_permissions(&maven, std::fs::Permissions::from_mode(0o755)).unwrap();
        let look = || {
            let output = std::process::Command::new("/bin/sh")
                .args(["-c", LOOK])
                .current_dir(&checkout)
                .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
                .output()
                .unwrap();
            lines(&String::from_utf8_lossy(&output.stdout))
        };
        let is_there = |lines: Vec<String>| lines.iter().any(|line| line == "maven: Apache Maven 3.9.9");
        assert!(!is_there(look()));
        std::fs::write(checkout.join("part/pom.xml"), "").unwrap();
        assert!(is_there(look()));
    }

    #[test]
    fn lines_are_short_and_say_a_name_once() {
        let output = "Debian\ncargo: cargo 1.95.0 (x)\nnode: v22.1.0\n\n  python: Python 3.13\n";
        assert_eq!(
            lines(output),
            ["Debian", "cargo 1.95.0 (x)", "node: v22.1.0", "Python 3.13"]
        );
        let long = "x".repeat(1_000);
        assert!(lines(&format!("{long}\n").repeat(100)).len() == MAX_LINES);
        assert!(lines(&long)[0].chars().count() <= MAX_LINE_CHARS);
    }
}
