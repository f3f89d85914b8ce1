//! Repositories with a history, made in one go and the same bytes every time: authors and dates
//! are fixed, so that commit ids are too. Called by tests and by the demo.
//! Never needs a work tree: commits are streamed into the bare repository.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};

use crate::ids::{RepoId, RepoName};

use super::GitHubDouble;
use super::noun::Repo;

/// The first commit's time: 2026-01-01 00:00 UTC. Each further commit is a minute later.
const FIRST_COMMIT_AT: u64 = 1_767_225_600;

#[derive(Debug)]
enum Step {
    Write {
        path: String,
        mode: &'static str,
        content: Vec<u8>,
    },
    Delete(String),
    Commit(String),
    Branch(String),
}

/// A repository to be made. Files belong to the next `commit`.
#[must_use = "nothing is made before `create`"]
pub struct RepositorySeed {
    double: GitHubDouble,
    full_name: String,
    default_branch: String,
    private: bool,
    parent: Option<u64>,
    steps: Vec<Step>,
}

impl RepositorySeed {
    /// Only those with a role may see it.
    pub fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Another default branch than `main`.
    pub fn default_branch(mut self, name: &str) -> Self {
        name.clone_into(&mut self.default_branch);
        self
    }

    /// A file of the next commit.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.write(path, "100644", content.as_ref())
    }

    /// A program of the next commit.
    pub fn executable(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.write(path, "100755", content.as_ref())
    }

    /// A symbolic link of the next commit.
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.write(path, "120000", target.as_bytes())
    }

    /// A file that the next commit deletes.
    pub fn delete(mut self, path: &str) -> Self {
        self.steps.push(Step::Delete(path.to_owned()));
        self
    }

    /// Commits what was said since the last commit.
    pub fn commit(mut self, message: &str) -> Self {
        self.steps.push(Step::Commit(message.to_owned()));
        self
    }

    /// Further commits go to this branch, which begins where the last commit was.
    pub fn branch(mut self, name: &str) -> Self {
        self.steps.push(Step::Branch(name.to_owned()));
        self
    }

    fn write(mut self, path: &str, mode: &'static str, content: &[u8]) -> Self {
        self.steps.push(Step::Write {
            path: path.to_owned(),
            mode,
            content: content.to_owned(),
        });
        self
    }

    /// Makes it; without a commit it is empty, as a new repository on GitHub is.
    pub async fn create(self) -> anyhow::Result<RepoId> {
        let name: RepoName = self.full_name.parse()?;
        let inner = &self.double.inner;
        let (id, created_at) = {
            let mut state = self.double.lock();
            (state.fresh_id(), state.now())
        };
        let path = inner.folder.path().join(format!("{id}.git"));
        inner.git.init(&path, &self.default_branch).await?;
        if let Some(parent) = self.parent {
            let parent = self.double.path_of(parent)?;
            inner.git.fetch(&path, &parent, "refs/heads/*:refs/heads/*").await?;
        }
        let stream = stream(&self.steps, Start::Nothing(&self.default_branch))?;
        inner.git.fast_import(&path, &stream).await?;
        let refs = inner.git.refs(&path).await?;
        let repo = Repo {
            parent: self.parent,
            id,
            owner: name.owner().to_owned(),
            name: name.name().to_owned(),
            default_branch: self.default_branch,
            private: self.private,
            archived: false,
            created_at,
            seen: refs.values().cloned().collect(),
            refs,
            path,
            roles: Default::default(),
            labels: Default::default(),
            issues: Default::default(),
            events: Default::default(),
            milestones: Default::default(),
            pulls: Default::default(),
            comments: Default::default(),
            reviews: Default::default(),
            review_comments: Default::default(),
            resolved: Default::default(),
            sub_issues: Default::default(),
            check_runs: Default::default(),
            suites: Default::default(),
            statuses: Default::default(),
            advisories: Default::default(),
        };
        self.double.lock().add_repo(repo).map(RepoId)
    }
}

/// Where a stream of commits begins.
enum Start<'a> {
    /// In an empty repository, on this branch.
    Nothing(&'a str),
    /// On top of a branch that exists, or of a commit where the branch is new.
    On {
        branch: &'a str,
        from: &'a str,
        number: u64,
    },
}

/// The steps in the language of `git fast-import`.
fn stream(steps: &[Step], start: Start<'_>) -> anyhow::Result<Vec<u8>> {
    let (mut branch, mut from, mut number) = match start {
        Start::Nothing(branch) => (branch.to_owned(), None, 0),
        Start::On { branch, from, number } => (branch.to_owned(), Some(from.to_owned()), number),
    };
    let mut out = Vec::new();
    let mut changes: Vec<u8> = Vec::new();
    for step in steps {
        match step {
            Step::Write { path, mode, content } => {
                changes.extend(format!("M {mode} inline {}\ndata {}\n", quote(path), content.len()).bytes());
                changes.extend(content);
                changes.push(b'\n');
            }
            Step::Delete(path) => changes.extend(format!("D {}\n", quote(path)).bytes()),
            Step::Branch(name) => {
                ensure!(changes.is_empty(), "commit the files before the branch {name}");
                from = (number > 0).then(|| format!("refs/heads/{branch}"));
                name.clone_into(&mut branch);
                if let Some(from) = &from {
                    out.extend(format!("reset refs/heads/{branch}\nfrom {from}\n\n").bytes());
                }
            }
            Step::Commit(message) => {
                let at = FIRST_COMMIT_AT + 60 * number;
                number += 1;
                let who = format!("Octo Person <person@example.org> {at} +0000");
                let mut head = format!("commit refs/heads/{branch}\nauthor {who}\ncommitter {who}\n");
                write!(head, "data {}\n{message}\n", message.len())?;
                if let Some(from) = from.take() {
                    writeln!(head, "from {from}")?;
                }
                out.extend(head.bytes());
                out.append(&mut changes);
                out.push(b'\n');
            }
        }
    }
    ensure!(changes.is_empty(), "there are files after the last commit");
    Ok(out)
}

/// Paths are quoted like C strings, so that spaces and quotes in them survive.
fn quote(path: &str) -> String {
    let mut quoted = String::from("\"");
    for c in path.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

impl GitHubDouble {
    /// Begins a repository `owner/name`, on which the App is installed.
    pub fn repository(&self, full_name: &str) -> RepositorySeed {
        RepositorySeed {
            double: self.clone(),
            full_name: full_name.to_owned(),
            default_branch: "main".to_owned(),
            private: false,
            parent: None,
            steps: Vec::new(),
        }
    }

    /// Somebody forks a repository as `owner/name`; the App is not installed on the fork.
    pub async fn fork(&self, repo: &str, full_name: &str) -> anyhow::Result<RepoId> {
        let mut seed = self.repository(full_name);
        {
            let state = self.lock();
            let parent = state.repo_named(repo)?;
            parent.default_branch.clone_into(&mut seed.default_branch);
            seed.private = parent.private;
            seed.parent = Some(parent.id);
        }
        let id = seed.create().await?;
        self.uninstall(full_name)?;
        Ok(id)
    }

    /// Somebody pushes a commit that writes these files to a branch, which is made from the
    /// default branch where it is new. Gives the commit.
    pub async fn push(
        &self,
        repo: &str,
        branch: &str,
        files: &[(&str, &str)],
        message: &str,
        by: &str,
    ) -> anyhow::Result<String> {
        let steps = files.iter().map(|(path, content)| Step::Write {
            path: (*path).to_owned(),
            mode: "100644",
            content: content.as_bytes().to_owned(),
        });
        self.push_steps(repo, branch, steps.collect(), message, by).await
    }

    /// Somebody pushes a commit that deletes these files.
    pub async fn push_deletion(
        &self,
        repo: &str,
        branch: &str,
        paths: &[&str],
        message: &str,
        by: &str,
    ) -> anyhow::Result<String> {
        let steps = paths.iter().map(|path| Step::Delete((*path).to_owned()));
        self.push_steps(repo, branch, steps.collect(), message, by).await
    }

    /// Somebody moves a branch to a commit, as a forced push does.
    pub async fn force_push(&self, repo: &str, branch: &str, sha: &str, by: &str) -> anyhow::Result<()> {
        let (id, path, who) = {
            let state = self.lock();
            let repo = state.repo_named(repo)?;
            (repo.id, repo.path.clone(), state.actor(by)?)
        };
        let git = &self.inner.git;
        git.update_ref(&path, &format!("refs/heads/{branch}"), sha).await?;
        self.refresh_refs(id, who).await
    }

    async fn push_steps(
        &self,
        repo: &str,
        branch: &str,
        mut steps: Vec<Step>,
        message: &str,
        by: &str,
    ) -> anyhow::Result<String> {
        let (id, path, from, who, number) = {
            let state = self.lock();
            let who = state.actor(by)?;
            let repo = state.repo_named(repo)?;
            let from = repo.branch(branch).or_else(|| repo.branch(&repo.default_branch));
            let from = from.context("the repository has no commit yet")?.clone();
            // Later than every seeded commit, and different for every push.
            let number = 10_000 + state.requests.len() as u64;
            (repo.id, repo.path.clone(), from, who, number)
        };
        steps.push(Step::Commit(message.to_owned()));
        let start = Start::On {
            branch,
            from: &from,
            number,
        };
        self.inner.git.fast_import(&path, &stream(&steps, start)?).await?;
        self.refresh_refs(id, who).await?;
        self.branch(repo, branch)?.context("the push made no branch")
    }
}
