//! `forgehand graph`: who uses what in a local repository, with how sure each answer is. Never shows
//! one symbol for a name that has several without saying so.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use serde_json::{Value, json};

use super::bar::Show;
use super::indexed;
use super::{Context, Usage, show};
use crate::retrieval::graph::{Edge, Edges, Graph, Impact, SymbolId};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  forgehand graph . callers Parser.parse
  forgehand graph . impact src/text.rs:clip --max 30
  forgehand graph . path main Parser.parse
  forgehand graph . symbols parse --json

A name is `parse`, `Parser.parse` or `src/parser.rs:parse`. Answers are worked out from names, imports, \
owners and declared types: `exact` follows the rules of the language, `likely` is the only one that \
fits, `possible` fits by name alone.")]
pub(super) struct Args {
    /// Checkout or bare repository.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What is asked.
    #[arg(value_enum)]
    question: Question,
    /// The symbol.
    #[arg(value_name = "NAME")]
    name: String,
    /// The symbol at the other end, for `path`.
    #[arg(value_name = "NAME")]
    to: Option<String>,
    /// Most lines shown.
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    max: usize,
    /// Most steps of `impact`.
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    depth: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    /// Where it is used.
    Callers,
    /// What it uses.
    Callees,
    /// A shortest path of calls to another symbol.
    Path,
    /// What reaches it, over several steps.
    Impact,
    /// Where it is defined.
    Symbols,
    /// What extends or implements a type.
    Implementors,
    /// The tests that reach it.
    Tests,
}

/// Symbols of one name that are shown or asked about.
const MAX_SYMBOLS: usize = 20;

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<ExitCode> {
    if (args.question == Question::Path) != args.to.is_some() {
        bail!(Usage("`path` takes two names, everything else one".to_owned()));
    }
    let tell = if args.json { Show::Nothing } else { Show::Progress };
    let indexed = indexed::open(context, &args.dir, tell).await?;
    let graph = Graph::of(Arc::clone(&indexed.view));
    let asked = Asked {
        graph: &graph,
        args: &args,
    };
    let Some(symbols) = asked.named(&args.name)? else {
        return Ok(ExitCode::FAILURE);
    };
    let answer = match args.question {
        Question::Symbols => json!({"symbols": asked.all(&symbols)}),
        Question::Path => {
            let to = args.to.as_deref().unwrap_or_default();
            let Some(ends) = asked.named(to)? else {
                return Ok(ExitCode::FAILURE);
            };
            asked.path(&symbols, &ends)
        }
        _ => Value::Array(symbols.iter().map(|id| asked.answer(*id)).collect()),
    };
    if args.json {
        show::json(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Asked<'a> {
    graph: &'a Graph,
    args: &'a Args,
}

impl Asked<'_> {
    /// The symbols of a name; says what else there is when there is none.
    fn named(&self, name: &str) -> anyhow::Result<Option<Vec<SymbolId>>> {
        let named = self.graph.symbols(name, MAX_SYMBOLS);
        if named.symbols.is_empty() {
            if self.args.json {
                show::json(&json!({"symbols": [], "near": named.near}))?;
            }
            note!("no symbol is called {name}");
            if !named.near.is_empty() {
                note!("  near it: {}", named.near.join(", "));
            }
            return Ok(None);
        }
        if named.cut > 0 {
            note!(
                "{name}: {} more of this name; say `Type.{name}` or `path:{name}`",
                named.cut
            );
        }
        Ok(Some(named.symbols))
    }

    fn say(&self, line: &str) {
        if !self.args.json {
            say!("{line}");
        }
    }

    fn all(&self, symbols: &[SymbolId]) -> Vec<Value> {
        let symbols = symbols.iter().map(|id| {
            self.say(&self.line(*id));
            self.value(*id)
        });
        symbols.collect()
    }

    fn answer(&self, id: SymbolId) -> Value {
        self.say(&self.line(id));
        let max = self.args.max;
        let mut answer = self.value(id);
        let found = match self.args.question {
            Question::Callers => self.edges(&self.graph.callers(id, max)),
            Question::Callees => self.edges(&self.graph.callees(id, max)),
            Question::Impact => self.impact(&self.graph.impact(id, self.args.depth, max)),
            Question::Tests => self.impact(&self.graph.tests(id, max)),
            Question::Implementors => {
                let found = self.graph.implementors(id, max);
                let lines = found.iter().map(|(id, _)| {
                    self.say(&format!("  {}", self.line(*id)));
                    self.value(*id)
                });
                json!({"implementors": lines.collect::<Vec<_>>()})
            }
            Question::Path | Question::Symbols => Value::Null,
        };
        if let (Some(answer), Value::Object(found)) = (answer.as_object_mut(), found) {
            answer.extend(found);
        }
        answer
    }

    fn edges(&self, edges: &Edges) -> Value {
        let list: Vec<Value> = edges.edges.iter().map(|edge| self.edge(edge)).collect();
        if edges.edges.is_empty() {
            self.say("  nothing");
        }
        if edges.cut > 0 {
            self.say(&format!("  {} more", edges.cut));
        }
        if edges.unexamined > 0 {
            self.say(&format!("  {} uses of the name were not looked at", edges.unexamined));
        }
        json!({"edges": list, "cut": edges.cut, "unexamined": edges.unexamined})
    }

    fn edge(&self, edge: &Edge) -> Value {
        let (graph, path) = (self.graph, self.graph.view().path(edge.file));
        let from = edge.from.map(|from| graph.full_name(from));
        let is_out = self.args.question == Question::Callees;
        let shown = match &from {
            _ if is_out => self.line(edge.to),
            Some(from) => format!("{path}:{} {from}", edge.line),
            None => format!("{path}:{}", edge.line),
        };
        let among = if edge.among > 1 {
            format!(" among {}", edge.among)
        } else {
            String::new()
        };
        self.say(&format!(
            "  {shown}  {}{among}, {}",
            edge.certainty.name(),
            edge.why.name()
        ));
        json!({
            "path": path,
            "line": edge.line,
            "from": from,
            "to": self.value(edge.to),
            "certainty": edge.certainty.name(),
            "why": edge.why.name(),
            "among": edge.among,
        })
    }

    fn impact(&self, impact: &Impact) -> Value {
        let graph = self.graph;
        let list = impact.reached.iter().map(|reached| {
            let path = graph.view().path(reached.file);
            let name = reached.symbol.map(|id| graph.full_name(id));
            let test = if reached.is_test { ", test" } else { "" };
            self.say(&format!(
                "  {} {path}:{} {}  {}{test}, by {}",
                reached.distance,
                reached.line,
                name.as_deref().unwrap_or("-"),
                reached.certainty.name(),
                graph.full_name(reached.via),
            ));
            json!({
                "path": path,
                "line": reached.line,
                "symbol": name,
                "distance": reached.distance,
                "via": graph.full_name(reached.via),
                "certainty": reached.certainty.name(),
                "test": reached.is_test,
            })
        });
        let list: Vec<Value> = list.collect();
        if impact.is_cut {
            self.say("  there may be more");
        }
        if impact.possible > 0 {
            self.say(&format!("  {} possible uses were not followed", impact.possible));
        }
        json!({"reached": list, "cut": impact.is_cut, "possible": impact.possible})
    }

    /// The shortest path between any two of the symbols.
    fn path(&self, from: &[SymbolId], to: &[SymbolId]) -> Value {
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        let paths = pairs
            .take(MAX_SYMBOLS)
            .filter_map(|(from, to)| Some((from, self.graph.path(from, to)?)));
        let Some((from, path)) = paths.min_by_key(|(_, path)| path.len()) else {
            self.say("no path of calls was found");
            return json!({"path": null});
        };
        self.say(&self.line(from));
        let mut steps = vec![self.value(from)];
        for edge in &path {
            let called = format!("{}:{}", self.graph.view().path(edge.file), edge.line);
            self.say(&format!(
                "  {}  called at {called}, {}",
                self.line(edge.to),
                edge.certainty.name()
            ));
            let mut step = self.value(edge.to);
            if let Some(step) = step.as_object_mut() {
                step.insert("called_at".to_owned(), json!(called));
                step.insert("certainty".to_owned(), json!(edge.certainty.name()));
            }
            steps.push(step);
        }
        json!({"path": steps})
    }

    fn line(&self, id: SymbolId) -> String {
        let line = self.graph.symbol(id).map_or(0, |symbol| symbol.line);
        format!(
            "{}:{line} {}",
            self.graph.view().path(id.file),
            self.graph.full_name(id)
        )
    }

    fn value(&self, id: SymbolId) -> Value {
        let symbol = self.graph.symbol(id);
        json!({
            "path": self.graph.view().path(id.file),
            "name": self.graph.full_name(id),
            "line": symbol.as_ref().map(|symbol| symbol.line),
            "end_line": symbol.as_ref().map(|symbol| symbol.end_line),
        })
    }
}
