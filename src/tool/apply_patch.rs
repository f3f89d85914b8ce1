//! The tool `apply_patch`: changes to several files at once, as a patch. Never changes one file
//! when another cannot be: everything is worked out first and then done in one step.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::patch::{self, Change, FilePatch};
use super::{
    ReadBytes, Tool, ToolContext, ToolError, ToolOutput, arguments, files, key, read_bytes, read_existing, unexpected,
};
use crate::model::ToolSpec;
use crate::sandbox::{FileReply, FileRequest, FileStep};
use crate::text;

/// Larger files are generated, not written, and are changed by a command.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Most problems told at once.
const MAX_PROBLEMS: usize = 5;

/// Applies a patch.
pub(super) struct ApplyPatch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole patch, as text.
    #[serde(
        alias = "input",
        alias = "diff",
        alias = "patch_text",
        alias = "content",
        alias = "command"
    )]
    patch: String,
}

const DESCRIPTION: &str = "Changes one or several files with a patch; either all of it is done or nothing. Form:\n\
*** Begin Patch\n\
*** Update File: src/app.py\n\
@@ def greet(name):\n     \
    check(name)\n\
-    print(\"Hi\")\n\
+    print(\"Hello\", name)\n\
*** Add File: docs/greet.md\n\
+# Greeting\n\
*** Delete File: old.py\n\
*** End Patch\n\
Lines to take out begin with `-`, new ones with `+`, lines quoted to find the place with a space. `@@ ` and a line that \
stands before tells equal places apart. `*** Move to: path` under `Update File` renames. A unified diff (`git diff`) \
is taken too. Paths are relative to the workspace.";

#[async_trait]
impl Tool for ApplyPatch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "apply_patch".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: arguments::schema::<Arguments>(),
        }
    }

    fn permission_key(&self, arguments: &Value) -> String {
        let files = arguments::fit::<Arguments>("apply_patch", arguments.clone())
            .ok()
            .and_then(|wanted| patch::parse(&wanted.patch).ok())
            .unwrap_or_default();
        let paths = files.into_iter().flat_map(|file| match file.change {
            Change::Update { move_to, .. } => vec![Some(file.path), move_to],
            Change::Add(_) | Change::Delete(_) => vec![Some(file.path)],
        });
        key::files("apply_patch", paths.flatten().collect())
    }

    async fn call(&self, context: &ToolContext<'_>, arguments: Value) -> Result<ToolOutput, ToolError> {
        let Arguments { patch } = arguments::fit("apply_patch", arguments)?;
        let files_of_patch = patch::parse(&patch)
            .map_err(|problem| ToolError::BadCall(format!("apply_patch: {problem}\nNothing was changed.")))?;
        let mut draft = Draft::default();
        let mut problems = Vec::new();
        for file in &files_of_patch {
            match draft.take(context, file).await {
                Ok(()) => {}
                Err(ToolError::Fatal(broken)) => return Err(broken.into()),
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        if !problems.is_empty() {
            return Err(refused(&problems));
        }
        let steps = draft.steps();
        if steps.is_empty() {
            return Err(ToolError::ForModel(
                "the files already are as the patch would make them; nothing was changed".to_owned(),
            ));
        }
        match files(context, FileRequest::Change { steps }).await? {
            FileReply::Changed => Ok(ToolOutput::Text(text::reveal(&draft.said.join("\n")))),
            _ => Err(unexpected("changed files")),
        }
    }
}

fn refused(problems: &[String]) -> ToolError {
    let mut words = "Nothing was changed, in no file:".to_owned();
    for problem in problems.iter().take(MAX_PROBLEMS) {
        words.push_str("\n- ");
        words.push_str(problem);
    }
    if problems.len() > MAX_PROBLEMS {
        words.push_str(&format!("\n- … and {} more files", problems.len() - MAX_PROBLEMS));
    }
    ToolError::ForModel(text::reveal(&words))
}

/// The files of a patch as they will be.
#[derive(Default)]
struct Draft {
    files: BTreeMap<String, Draught>,
    said: Vec<String>,
}

/// One file before and after.
#[derive(Default)]
struct Draught {
    /// Hash of what is there.
    before: Option<String>,
    original: Vec<u8>,
    now: Option<Vec<u8>>,
    moved_from: Option<String>,
}

impl Draught {
    fn of(read: ReadBytes) -> Self {
        Self {
            before: Some(read.sha256),
            original: read.content.clone(),
            now: Some(read.content),
            moved_from: None,
        }
    }
}

impl Draft {
    async fn take(&mut self, context: &ToolContext<'_>, file: &FilePatch) -> Result<(), ToolError> {
        let path = &file.path;
        let problem = |problem: String| ToolError::ForModel(format!("{path}: {problem}"));
        match &file.change {
            Change::Add(content) => {
                if !self.files.contains_key(path) {
                    self.note_absent(context, path).await?;
                }
                let draught = self.known(path)?;
                if draught.now.is_some() {
                    return Err(problem(
                        "it exists already; use `*** Update File:`, or delete it first".to_owned(),
                    ));
                }
                draught.now = Some(content.clone().into_bytes());
                self.said.push(format!("A {path} +{}", content.lines().count()));
            }
            Change::Delete(hunks) => {
                let content = self.content(context, path).await?;
                if !hunks.is_empty() {
                    let applied = patch::apply(&content, hunks).map_err(problem)?;
                    if !applied.content.is_empty() {
                        return Err(problem(
                            "the patch deletes it, but does not take out all of its lines".to_owned(),
                        ));
                    }
                }
                self.known(path)?.now = None;
                self.said.push(format!("D {path}"));
            }
            Change::Update { move_to, hunks } => {
                let content = self.content(context, path).await?;
                let applied = patch::apply(&content, hunks).map_err(problem)?;
                self.known(path)?.now = Some(applied.content);
                let mut said = format!("M {path}");
                if let Some(to) = move_to {
                    self.rename(context, path, to).await?;
                    said = format!("R {path} -> {to}");
                }
                if !hunks.is_empty() {
                    let lines: Vec<String> = applied.lines.iter().take(20).map(usize::to_string).collect();
                    said.push_str(&format!(
                        " +{} -{} at line {}",
                        applied.added,
                        applied.removed,
                        lines.join(", ")
                    ));
                }
                for note in &applied.notes {
                    said.push_str(&format!("\n  Careful: {note}. See that the result is right."));
                }
                self.said.push(said);
            }
        }
        Ok(())
    }

    fn known(&mut self, path: &str) -> Result<&mut Draught, ToolError> {
        self.files
            .get_mut(path)
            .ok_or_else(|| unexpected("a file that was read"))
    }

    /// The content of a file at this point of the patch.
    async fn content(&mut self, context: &ToolContext<'_>, path: &str) -> Result<Vec<u8>, ToolError> {
        if !self.files.contains_key(path) {
            let read = read_existing(context, path, MAX_FILE_BYTES).await?;
            if read.bytes > MAX_FILE_BYTES {
                let most = text::bytes_in_words(MAX_FILE_BYTES);
                return Err(ToolError::ForModel(format!(
                    "{path}: change files over {most} with a command"
                )));
            }
            self.files.insert(path.to_owned(), Draught::of(read));
        }
        let now = self.known(path)?.now.clone();
        now.ok_or_else(|| ToolError::ForModel(format!("{path}: an earlier part of the patch deleted or renamed it")))
    }

    /// A path that the patch makes. The sandbox refuses it if something else is there.
    async fn note_absent(&mut self, context: &ToolContext<'_>, path: &str) -> Result<(), ToolError> {
        let found = match read_bytes(context, path, MAX_FILE_BYTES).await {
            Ok(read) => Draught::of(read),
            Err(ToolError::ForModel(problem)) if problem.ends_with("does not exist") => Draught::default(),
            Err(problem) => return Err(problem),
        };
        self.files.insert(path.to_owned(), found);
        Ok(())
    }

    async fn rename(&mut self, context: &ToolContext<'_>, from: &str, to: &str) -> Result<(), ToolError> {
        if !self.files.contains_key(to) {
            self.note_absent(context, to).await?;
        }
        let taken = self.known(to)?;
        if taken.now.is_some() || taken.before.is_some() {
            return Err(ToolError::ForModel(format!(
                "{from}: it cannot be renamed, {to} exists already"
            )));
        }
        let old = self.known(from)?;
        let content = old.now.take();
        let (before, source) = (
            old.before.clone(),
            old.moved_from.clone().unwrap_or_else(|| from.to_owned()),
        );
        let was_there = before.is_some() || old.moved_from.is_some();
        let new = self.known(to)?;
        new.now = content;
        new.moved_from = was_there.then_some(source);
        Ok(())
    }

    /// What has to be done, each file once.
    fn steps(&self) -> Vec<FileStep> {
        let moved: Vec<&String> = self
            .files
            .values()
            .filter_map(|file| file.moved_from.as_ref())
            .collect();
        let mut steps = Vec::new();
        for (path, file) in &self.files {
            let source = file
                .moved_from
                .as_ref()
                .and_then(|from| Some((from, self.files.get(from)?)));
            match (&file.before, &file.now, source) {
                (_, Some(now), Some((from, old))) => steps.push(FileStep::Move {
                    from: from.clone(),
                    to: path.clone(),
                    expect_sha256: old.before.clone().unwrap_or_default(),
                    content: (*now != old.original).then(|| BASE64.encode(now)),
                }),
                (None, Some(now), None) => steps.push(FileStep::Create {
                    path: path.clone(),
                    content: BASE64.encode(now),
                }),
                (Some(before), Some(now), None) if *now != file.original => steps.push(FileStep::Replace {
                    path: path.clone(),
                    content: BASE64.encode(now),
                    expect_sha256: before.clone(),
                }),
                (Some(before), None, _) if !moved.contains(&path) => steps.push(FileStep::Remove {
                    path: path.clone(),
                    expect_sha256: before.clone(),
                }),
                _ => {}
            }
        }
        steps
    }
}
