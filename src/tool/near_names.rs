//! Names of a folder that are nearly the wanted one, for an answer about a file that is not there.
//! Called by the file tools' common part. Never decides what is read.

use std::collections::HashMap;

use super::ToolContext;
use crate::sandbox::{FileReply, FileRequest, SandboxError};

/// Most entries of the folder that are looked at.
const MAX_ENTRIES: u32 = 2_000;

/// Most names given.
const MAX_NAMES: usize = 3;

/// Least share of letters in common, from 0 to 1.
const LEAST: f64 = 0.6;

/// Paths in the folder of `path` whose names are similar, the most similar first.
pub(super) async fn beside(context: &ToolContext<'_>, path: &str) -> Result<Vec<String>, SandboxError> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let request = FileRequest::List {
        path: folder.to_owned(),
        depth: 1,
        max_entries: MAX_ENTRIES,
    };
    Ok(match context.sandbox.files(&request).await? {
        FileReply::Entries { entries, .. } => {
            let paths = entries.iter().map(|entry| entry.path.as_str());
            nearest(paths, name).into_iter().map(crate::text::reveal).collect()
        }
        _ => Vec::new(),
    })
}

fn nearest<'a>(paths: impl Iterator<Item = &'a str>, name: &str) -> Vec<&'a str> {
    let wanted = pairs(name);
    let mut near: Vec<(f64, &str)> = paths
        .map(|path| (similarity(&wanted, path.rsplit('/').next().unwrap_or(path)), path))
        .filter(|(similarity, _)| *similarity >= LEAST)
        .collect();
    near.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.cmp(other)));
    near.into_iter().take(MAX_NAMES).map(|(_, path)| path).collect()
}

/// Neighbouring letters and how often they stand there.
fn pairs(name: &str) -> HashMap<(char, char), usize> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let mut counts = HashMap::new();
    for pair in letters.windows(2) {
        *counts.entry((pair[0], pair[1])).or_insert(0) += 1;
    }
    counts
}

fn similarity(wanted: &HashMap<(char, char), usize>, name: &str) -> f64 {
    let there = pairs(name);
    let total = wanted.values().sum::<usize>() + there.values().sum::<usize>();
    if total == 0 {
        return 0.0;
    }
    let common: usize = wanted
        .iter()
        .map(|(pair, count)| *count.min(there.get(pair).unwrap_or(&0)))
        .sum();
    2.0 * common as f64 / total as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_the_same_names_are_found() {
        let folder = [
            "t/001_api.t",
            "t/040_content.t",
            "t/050_chunked_body.t",
            "src/eval.rs",
            "src/error.rs",
            "a",
        ];
        let near = |name: &str| nearest(folder.into_iter(), name);
        assert_eq!(near("050_chunk_body.t"), ["t/050_chunked_body.t"]);
        assert_eq!(near("evaluate.rs"), ["src/eval.rs"]);
        assert_eq!(near("EVAL.rs"), ["src/eval.rs"]);
        assert!(near("README.md").is_empty() && near("").is_empty() && near("b").is_empty());
    }
}
