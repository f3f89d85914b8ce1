//! Folders of old things in the state folder, and what of them goes. Called by `retention`.
//! Never touches a file whose name it does not know.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Datelike as _, Months, NaiveDate, TimeDelta, Utc};

use super::file::PART;
use crate::ids::RepoId;

/// A file that is being written is finished or given up within this time.
const PART_LIFE: TimeDelta = TimeDelta::days(1);

/// What was removed.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Swept {
    fn remove(&mut self, file: &Path, bytes: u64) -> io::Result<()> {
        match fs::remove_file(file) {
            Ok(()) => {
                self.files += 1;
                self.bytes += bytes;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Removes files of jobs, of the audit and of records whose whole month was before a time, then the oldest
/// files of jobs until they have at most so many bytes, and what writers left that are gone.
pub(super) fn sweep(
    state_dir: &Path,
    before: Option<DateTime<Utc>>,
    most: Option<u64>,
    now: DateTime<Utc>,
) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let archive = state_dir.join("archive");
    let mut left: Vec<(PathBuf, u64)> = Vec::new();
    for (folder, month) in months(&archive)? {
        let is_old = before.is_some_and(|before| month < before.date_naive());
        for (file, bytes, modified) in files(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(PART) {
                if modified < now - PART_LIFE {
                    swept.remove(&file, bytes)?;
                }
            } else if name.ends_with(".jsonl.gz") {
                match is_old {
                    true => swept.remove(&file, bytes)?,
                    false => left.push((file, bytes)),
                }
            }
        }
        // One that is not empty stays.
        drop(fs::remove_dir(&folder));
        drop(folder.parent().map(fs::remove_dir));
    }
    if let Some(most) = most {
        let mut all: u64 = left.iter().map(|(_, bytes)| bytes).sum();
        for (file, bytes) in left {
            if all <= most {
                break;
            }
            swept.remove(&file, bytes)?;
            all -= bytes;
        }
    }
    if let Some(before) = before {
        for (file, bytes, modified) in files(&archive.join("audit"))? {
            if modified < before {
                swept.remove(&file, bytes)?;
            }
        }
        for (file, bytes, _) in files(&state_dir.join("ledger"))? {
            let month = file
                .file_name()
                .and_then(|name| last_day(name.to_str()?.strip_suffix(".jsonl")?, '-'));
            if month.is_some_and(|month| month < before.date_naive()) {
                swept.remove(&file, bytes)?;
            }
        }
    }
    Ok(swept)
}

/// The folders of months, the oldest first, each with its last day.
fn months(archive: &Path) -> io::Result<Vec<(PathBuf, NaiveDate)>> {
    let mut months = Vec::new();
    for year in folders(archive)? {
        for month in folders(&year)? {
            let name = |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(day) = last_day(&format!("{}-{}", name(&year), name(&month)), '-') {
                months.push((month, day));
            }
        }
    }
    months.sort();
    Ok(months)
}

/// The last day of a month that is written `2026-01`.
fn last_day(month: &str, between: char) -> Option<NaiveDate> {
    let (year, month) = month.split_once(between)?;
    let first = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, 1)?;
    first.checked_add_months(Months::new(1))?.with_day(1)?.pred_opt()
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = entries(folder)?;
    let folders = entries
        .into_iter()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| entry.path()).collect())
}

/// Plain files by name, with their size and when they were written.
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, u64, DateTime<Utc>)>> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        if let Ok(about) = entry.metadata()
            && about.is_file()
        {
            let modified = about.modified().map(DateTime::<Utc>::from)?;
            files.push((entry.path(), about.len(), modified));
        }
    }
    files.sort();
    Ok(files)
}

fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The mirrors with their repositories.
pub(super) fn mirrors(state_dir: &Path) -> io::Result<Vec<(RepoId, PathBuf)>> {
    let folders = folders(&state_dir.join("mirrors"))?;
    let repo = |folder: &PathBuf| -> Option<RepoId> {
        let name = folder.file_name()?.to_str()?.strip_suffix(".git")?;
        name.parse().ok().map(RepoId)
    };
    Ok(folders
        .into_iter()
        .filter_map(|folder| Some((repo(&folder)?, folder)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_months_go_and_then_the_oldest_files_above_the_cap() {
        let state = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: usize| {
            let file = state.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, vec![0; bytes]).unwrap();
        };
        for name in [
            "archive/2024/11/A.jsonl.gz",
            "archive/2025/02/B.jsonl.gz",
            "archive/2025/03/C.jsonl.gz",
            "archive/2025/03/D.jsonl.gz",
            "archive/2024/11/readme.txt",
            "archive/odd/11/E.jsonl.gz",
            "ledger/2025-01.jsonl",
            "ledger/2025-03.jsonl",
        ] {
            put(name, 100);
        }
        let there = |name: &str| state.path().join(name).exists();
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let (before, now) = (at("2025-02-28T12:00:00Z"), at("2026-01-01T00:00:00Z"));
        let swept = sweep(state.path(), Some(before), Some(250), now).unwrap();
        assert_eq!(
            (swept.files, swept.bytes),
            (3, 300),
            "a month, a ledger, and one above the cap"
        );
        assert!(!there("archive/2024/11/A.jsonl.gz") && there("archive/2024/11/readme.txt"));
        assert!(!there("archive/2025/02/B.jsonl.gz") && there("archive/2025/03/C.jsonl.gz"));
        assert!(there("archive/odd/11/E.jsonl.gz") && there("ledger/2025-03.jsonl") && !there("ledger/2025-01.jsonl"));
        assert_eq!(sweep(state.path(), None, None, now).unwrap().files, 0);
    }
}
