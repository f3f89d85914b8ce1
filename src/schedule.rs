//! A schedule: which work is begun in which repository, and when. Written in the configuration or
//! added at the command line, read by the same rules. Plain data; what fires is decided in
//! `unattended`. Never knows whether the repository, the skill or the graph exists.

use serde::{Deserialize, Serialize};

use crate::ids::RepoName;
use crate::job::{EvalSuite, word_enum};
use crate::text;
use crate::timetable::{self, Timetable};

/// Longest name, in bytes: it becomes part of the names of branches.
const MAX_NAME_BYTES: usize = 50;

/// Longest task, in bytes: what GitHub lets the body of an issue have, about.
const MAX_TASK_BYTES: usize = 64 * 1024;

/// Longest name of a skill or graph, in bytes.
const MAX_WORK_NAME_BYTES: usize = 200;

/// Longest title that is made of a task, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// A fire is put off by less than a day: otherwise the next one could come before it.
const MAX_JITTER_SECONDS: u64 = 24 * 3600;

word_enum! {
    /// What becomes of fires that nobody was there for.
    CatchUp, "way to catch up" {
        /// The last one is made up for.
        Once = "once",
        /// None is.
        None = "none",
    }
}

/// A schedule as somebody wrote it. What is absent may be missing, or may not be needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// What it is called.
    pub name: Option<String>,
    /// The cron expression.
    pub cron: Option<String>,
    /// The zone whose clock it is about.
    pub timezone: String,
    /// Most seconds that a fire is put off by.
    pub jitter_seconds: u64,
    /// `owner/name`.
    pub repository: Option<String>,
    /// What to do, or the words that go with a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The skill to work by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The work graph to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The file with the cases to measure on, in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval: Option<String>,
    /// What such a measurement has to reach, in percent.
    #[serde(default, skip_serializing_if = "is_any")]
    pub min_mrr: u32,
    /// Whether it fires at all.
    pub enabled: bool,
    /// What becomes of missed fires.
    pub catch_up: CatchUp,
}

/// A schedule without the key is read by older programs, too.
fn is_any(min_mrr: &u32) -> bool {
    *min_mrr == 0
}

/// What is wrong with one key of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: &'static str,
    /// What is wrong, in a sentence.
    pub text: String,
}

/// Who wrote a schedule, and so who can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It stands in the configuration.
    File,
    /// It was added at the command line.
    Database,
}

/// What is begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A task in words.
    Task(String),
    /// A skill, and words for it.
    Skill {
        /// Its name.
        name: String,
        /// What it is told.
        words: Option<String>,
    },
    /// The work graph with this name.
    Graph(String),
    /// A suite of cases to measure on.
    Eval(EvalSuite),
}

/// A schedule that can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// What it is called; no two have the same name.
    pub name: String,
    /// When it fires.
    pub timetable: Timetable,
    /// Most seconds that a fire is put off by.
    pub jitter_seconds: u64,
    /// Where the work is.
    pub repository: RepoName,
    /// The work.
    pub work: Work,
    /// Whether it fires at all.
    pub enabled: bool,
    /// What becomes of missed fires.
    pub catch_up: CatchUp,
    /// Who wrote it.
    pub source: Source,
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(written: &Written, source: Source) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut note = |key, text: String| problems.push(Problem { key, text });
        let name = check(written.name.as_deref(), "name", &mut note, |name| {
            parse_name(name).map(|()| name.to_owned())
        });
        let zone = timetable::zone(&written.timezone);
        let zone = zone.map_err(|problem| note("timezone", problem));
        let cron = check(written.cron.as_deref(), "cron", &mut note, |cron| {
            // What is wrong with the expression is said even where the zone is wrong too.
            Timetable::parse(cron, zone.unwrap_or(chrono_tz::UTC))
        });
        let repository = check(written.repository.as_deref(), "repository", &mut note, |name| {
            name.parse::<RepoName>().map_err(|error| error.to_string())
        });
        if written.jitter_seconds > MAX_JITTER_SECONDS {
            note("jitter_seconds", format!("at most {MAX_JITTER_SECONDS}, a day"));
        }
        let work = parse_work(written).map_err(|problem| note(problem.key, problem.text));
        match (name, cron, repository, work) {
            (Some(name), Some(timetable), Some(repository), Ok(work)) if problems.is_empty() => Ok(Self {
                name,
                timetable,
                jitter_seconds: written.jitter_seconds,
                repository,
                work,
                enabled: written.enabled,
                catch_up: written.catch_up,
                source,
            }),
            _ => Err(problems),
        }
    }
}

/// A key that has to be there, read.
fn check<T>(
    given: Option<&str>,
    key: &'static str,
    note: &mut impl FnMut(&'static str, String),
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let read = match given {
        Some(text) => read(text),
        None => Err("is missing".to_owned()),
    };
    read.map_err(|problem| note(key, problem)).ok()
}

fn parse_name(name: &str) -> Result<(), String> {
    if !name.is_empty() && text::slug(name, MAX_NAME_BYTES) == name {
        return Ok(());
    }
    Err(format!(
        "{:?} is no name: 1 to {MAX_NAME_BYTES} lower-case letters, digits and single hyphens between them",
        text::cap_chars(name, MAX_NAME_BYTES)
    ))
}

fn parse_work(written: &Written) -> Result<Work, Problem> {
    let wrong = |key, text: &str| {
        let text = text.to_owned();
        Err(Problem { key, text })
    };
    if written.min_mrr > 100 {
        return wrong("min_mrr", "a percentage, at most 100");
    }
    if written.min_mrr > 0 && written.eval.is_none() {
        return wrong("min_mrr", "stands without an eval suite, which alone is measured");
    }
    if let Some(cases) = &written.eval {
        let others = [
            ("task", &written.task),
            ("skill", &written.skill),
            ("graph", &written.graph),
        ];
        if let Some((key, _)) = others.into_iter().find(|(_, other)| other.is_some()) {
            return wrong(key, "stands beside an eval suite; a schedule has one of them");
        }
        if !is_path(cases) {
            return wrong(
                "eval",
                "the path of a file in the repository, such as `evals/cases.jsonl`, of at most 200 bytes",
            );
        }
        return Ok(Work::Eval(EvalSuite {
            cases: cases.clone(),
            min_mrr: written.min_mrr,
        }));
    }
    let task = written.task.as_deref().map(str::trim);
    if task.is_some_and(|task| task.is_empty() || task.len() > MAX_TASK_BYTES) {
        return wrong("task", "1 byte to 64 KiB of text");
    }
    for (key, name) in [("skill", &written.skill), ("graph", &written.graph)] {
        if name
            .as_ref()
            .is_some_and(|name| name.trim().is_empty() || name.len() > MAX_WORK_NAME_BYTES)
        {
            return wrong(key, "a name of at most 200 bytes");
        }
    }
    match (task, &written.skill, &written.graph) {
        (Some(task), None, None) => Ok(Work::Task(task.to_owned())),
        (words, Some(name), None) => Ok(Work::Skill {
            name: name.trim().to_owned(),
            words: words.map(str::to_owned),
        }),
        (None, None, Some(name)) => Ok(Work::Graph(name.trim().to_owned())),
        (None, None, None) => wrong(
            "task",
            "is missing; a schedule has a task, a skill, a graph or an eval suite",
        ),
        (_, Some(_), Some(_)) => wrong("graph", "stands beside a skill; a schedule has one of them"),
        (Some(_), None, Some(_)) => wrong("graph", "stands beside a task; a graph has its own tasks"),
    }
}

/// Whether it names a file below a folder, in one way only.
fn is_path(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..");
    path.len() <= MAX_WORK_NAME_BYTES && !path.contains(['\\', '\0', '\n']) && path.split('/').all(is_name)
}

impl Work {
    /// One line for lists, and the title of the work.
    pub fn title(&self) -> String {
        let line = match self {
            Work::Task(task) | Work::Skill { words: Some(task), .. } => task.lines().next().unwrap_or_default().trim(),
            Work::Skill { name, words: None } => return format!("Skill {name}"),
            Work::Graph(name) => return format!("Work graph {name}"),
            Work::Eval(suite) => return format!("Measure with {}", suite.cases),
        };
        text::cap_chars(line, MAX_TITLE_CHARS)
    }

    /// The task as the agent is told it; a graph has tasks of its own, and a measurement needs no agent.
    pub fn task(&self) -> Option<String> {
        match self {
            Work::Task(task) => Some(task.clone()),
            Work::Skill { name, words } => {
                let words = words.as_deref().map(|words| format!("\n\n{words}")).unwrap_or_default();
                Some(format!(
                    "Load the skill `{name}` before anything else, and work as it says.{words}"
                ))
            }
            Work::Graph(_) | Work::Eval(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Written {
        Written {
            name: Some("nightly".to_owned()),
            cron: Some("30 2 * * *".to_owned()),
            timezone: "Europe/Berlin".to_owned(),
            jitter_seconds: 60,
            repository: Some("octo/words".to_owned()),
            task: Some("Update the dependencies.\nOne at a time.".to_owned()),
            skill: None,
            graph: None,
            eval: None,
            min_mrr: 0,
            enabled: true,
            catch_up: CatchUp::Once,
        }
    }

    #[track_caller]
    fn check_problems(written: &Written, expected: &[(&str, &str)]) {
        let problems = Schedule::parse(written, Source::File).unwrap_err();
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, (key, part)) in problems.iter().zip(expected) {
            assert_eq!(problem.key, *key);
            assert!(problem.text.contains(part), "{part} in {}", problem.text);
        }
    }

    #[test]
    fn a_schedule_has_one_kind_of_work() {
        let schedule = Schedule::parse(&written(), Source::File).unwrap();
        assert_eq!(schedule.work.title(), "Update the dependencies.");
        assert!(schedule.work.task().unwrap().ends_with("One at a time."));
        let skill = Written {
            skill: Some("release-notes".to_owned()),
            ..written()
        };
        let task = Schedule::parse(&skill, Source::File).unwrap().work.task().unwrap();
        assert!(
            task.starts_with("Load the skill `release-notes`") && task.contains("\n\nUpdate the"),
            "{task}"
        );
        let none = Written {
            task: None,
            ..written()
        };
        check_problems(&none, &[("task", "is missing")]);
        let graph = Some("q4".to_owned());
        check_problems(
            &Written {
                graph: graph.clone(),
                ..written()
            },
            &[("graph", "beside a task")],
        );
        check_problems(
            &Written {
                graph: graph.clone(),
                ..skill
            },
            &[("graph", "beside a skill")],
        );
        let graph = Schedule::parse(&Written { graph, ..none }, Source::File).unwrap();
        assert_eq!(
            (graph.work.title().as_str(), graph.work.task()),
            ("Work graph q4", None)
        );
    }

    #[test]
    fn an_eval_suite_is_a_file_of_the_repository() {
        let eval = |path: &str| Written {
            task: None,
            eval: Some(path.to_owned()),
            ..written()
        };
        let suite = Written {
            min_mrr: 70,
            ..eval("evals/cases.jsonl")
        };
        let read = Schedule::parse(&suite, Source::File).unwrap();
        assert_eq!(read.work.title(), "Measure with evals/cases.jsonl");
        assert_eq!(read.work.task(), None);
        let expected = EvalSuite {
            cases: "evals/cases.jsonl".to_owned(),
            min_mrr: 70,
        };
        assert_eq!(read.work, Work::Eval(expected));
        for path in [
            "",
            "/etc/passwd",
            "a/../../b",
            "a//b",
            "./a",
            "a/",
            "a\\b",
            "a\nb",
            &"a".repeat(201),
        ] {
            check_problems(&eval(path), &[("eval", "the path of a file in the repository")]);
        }
        let task = written().task;
        check_problems(&Written { task, ..suite.clone() }, &[("task", "beside an eval suite")]);
        check_problems(&Written { min_mrr: 101, ..suite }, &[("min_mrr", "at most 100")]);
        check_problems(
            &Written {
                min_mrr: 1,
                ..written()
            },
            &[("min_mrr", "without an eval suite")],
        );
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let wrong = Written {
            name: Some("../up".to_owned()),
            cron: Some("61 2 * * *".to_owned()),
            timezone: "Europe/Berln".to_owned(),
            jitter_seconds: MAX_JITTER_SECONDS + 1,
            repository: None,
            task: Some(" ".to_owned()),
            ..written()
        };
        check_problems(
            &wrong,
            &[
                ("name", "is no name"),
                ("timezone", "did you mean Europe/Berlin?"),
                ("cron", "is no cron expression"),
                ("repository", "is missing"),
                ("jitter_seconds", "at most 86400"),
                ("task", "1 byte to 64 KiB"),
            ],
        );
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let text = serde_json::to_string(&written()).unwrap();
        assert_eq!(serde_json::from_str::<Written>(&text).unwrap(), written());
    }
}
