//! What `search_code` says of symbols: where they are, who uses them, what they use, what a change of
//! them reaches. From the index of the code with the agent's own edits. Never hides that a name has
//! several meanings, and never shows a place that is not there any more.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{ToolContext, ToolError, files};
use crate::retrieval::code_search::Present;
use crate::retrieval::graph::{Edge, Edges, Graph, Impact, SymbolId};
use crate::sandbox::{FileReply, FileRequest};
use crate::text;

/// Symbols of one name that are asked about at once; the rest are named.
const MAX_SYMBOLS: usize = 3;
/// Symbols that are listed.
const MAX_LISTED: usize = 30;
/// Edges of one symbol.
const MAX_EDGES: usize = 60;
/// Symbols and files that a change reaches.
const MAX_REACHED: usize = 80;
/// Steps that the reach of a change is followed.
const MAX_DEPTH: u32 = 4;
/// Characters of a line of code.
const MAX_LINE_CHARS: usize = 160;
/// Most bytes of one answer.
const MAX_BYTES: usize = 16 * 1024;

/// What is asked about a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Symbol,
    Callers,
    Callees,
    Impact,
    Implementors,
    Tests,
}

/// One line of an answer: what is said before the place, the place, and what is said behind.
struct Row {
    path: String,
    line: u32,
    said: String,
}

/// The answer about the symbols of a name.
pub(super) async fn about(
    context: &ToolContext<'_>,
    present: &Present,
    ask: Ask,
    name: &str,
) -> Result<String, ToolError> {
    let graph = &present.graph;
    let named = graph.symbols(name, MAX_LISTED);
    if named.symbols.is_empty() {
        return Ok(unknown(name, &named.near));
    }
    let mut answer = String::new();
    let all = named.symbols.len() + named.cut;
    let looked_at = match ask {
        Ask::Symbol => named.symbols.as_slice(),
        _ => &named.symbols[..named.symbols.len().min(MAX_SYMBOLS)],
    };
    if ask == Ask::Symbol {
        let rows: Vec<Row> = looked_at.iter().map(|id| row_of(graph, *id)).collect();
        show(context, &mut answer, &rows).await?;
    } else {
        for id in looked_at {
            let (head, rows, foot) = of_one(graph, ask, *id);
            let _ = writeln!(answer, "{head}");
            show(context, &mut answer, &rows).await?;
            answer.push_str(&foot);
            answer.push('\n');
        }
    }
    if all > looked_at.len() {
        let others = named.symbols[looked_at.len()..].iter().take(6);
        let others: Vec<String> = others.map(|id| place(graph, *id)).collect();
        let _ = writeln!(
            answer,
            "[`{name}` names {all} symbols; not looked at: {}; write `Type.{name}` or `path:{name}` for one]",
            others.join(", ")
        );
    }
    Ok(finish(&answer, &present.notes))
}

/// How one symbol comes to call another.
pub(super) async fn path(
    context: &ToolContext<'_>,
    present: &Present,
    from: &str,
    to: &str,
) -> Result<String, ToolError> {
    let graph = &present.graph;
    let (starts, ends) = (graph.symbols(from, MAX_SYMBOLS), graph.symbols(to, MAX_SYMBOLS));
    for (name, named) in [(from, &starts), (to, &ends)] {
        if named.symbols.is_empty() {
            return Ok(unknown(name, &named.near));
        }
    }
    let pairs = starts
        .symbols
        .iter()
        .flat_map(|from| ends.symbols.iter().map(move |to| (*from, *to)));
    let found = pairs.filter_map(|(from, to)| graph.path(from, to)).min_by_key(Vec::len);
    let mut answer = String::new();
    match found {
        None => {
            let _ = writeln!(
                answer,
                "No path of calls from `{from}` to `{to}` was found. A call through a variable of unknown type may be missing."
            );
        }
        Some(edges) => {
            let _ = writeln!(answer, "From `{from}` to `{to}` in {} calls:", edges.len());
            let rows: Vec<Row> = edges.iter().map(|edge| call_row(graph, edge)).collect();
            show(context, &mut answer, &rows).await?;
        }
    }
    Ok(finish(&answer, &present.notes))
}

fn of_one(graph: &Graph, ask: Ask, id: SymbolId) -> (String, Vec<Row>, String) {
    let place = place(graph, id);
    match ask {
        Ask::Symbol => (String::new(), vec![row_of(graph, id)], String::new()),
        Ask::Callers => {
            let edges = graph.callers(id, MAX_EDGES);
            let rows = edges.edges.iter().map(|edge| use_row(graph, edge)).collect();
            (format!("Uses of {place}:"), rows, foot(&edges))
        }
        Ask::Callees => {
            let edges = graph.callees(id, MAX_EDGES);
            let rows = edges.edges.iter().map(|edge| call_row(graph, edge)).collect();
            (format!("What {place} uses of this repository:"), rows, foot(&edges))
        }
        Ask::Impact => {
            let impact = graph.impact(id, MAX_DEPTH, MAX_REACHED);
            let foot = reached_foot(&impact);
            (
                format!("What a change of {place} can reach:"),
                reached_rows(graph, &impact),
                foot,
            )
        }
        Ask::Tests => {
            let impact = graph.tests(id, MAX_REACHED);
            let foot = reached_foot(&impact);
            (format!("Tests that touch {place}:"), reached_rows(graph, &impact), foot)
        }
        Ask::Implementors => {
            let below = graph.implementors(id, MAX_EDGES);
            let rows = below.into_iter().map(|(id, line)| Row {
                line,
                ..row_of(graph, id)
            });
            let above: Vec<String> = graph
                .supertypes(id)
                .into_iter()
                .map(|id| self::place(graph, id))
                .collect();
            let foot = match above.is_empty() {
                true => String::new(),
                false => format!("It extends or implements {}.\n", above.join(", ")),
            };
            (format!("What extends or implements {place}:"), rows.collect(), foot)
        }
    }
}

fn unknown(name: &str, near: &[String]) -> String {
    let name = text::cap_chars(name, 100);
    match near {
        [] => format!("[no symbol `{name}` is defined in this repository; search for it as words]"),
        near => format!(
            "[no symbol `{name}` is defined in this repository; names like it: {}]",
            near.join(", ")
        ),
    }
}

/// `Parser.parse (src/parser.rs:42)`.
fn place(graph: &Graph, id: SymbolId) -> String {
    let line = graph.symbol(id).map_or(0, |symbol| symbol.line);
    format!("`{}` ({}:{line})", graph.full_name(id), graph.view().path(id.file))
}

fn row_of(graph: &Graph, id: SymbolId) -> Row {
    let symbol = graph.symbol(id);
    let (line, end_line) = symbol.as_ref().map_or((0, 0), |symbol| (symbol.line, symbol.end_line));
    Row {
        path: graph.view().path(id.file).to_owned(),
        line,
        said: format!("`{}`, to line {end_line}", graph.full_name(id)),
    }
}

fn use_row(graph: &Graph, edge: &Edge) -> Row {
    let user = match edge.from {
        Some(from) => format!("in `{}`", graph.full_name(from)),
        None => "at the top of the file".to_owned(),
    };
    Row {
        path: graph.view().path(edge.file).to_owned(),
        line: edge.line,
        said: format!("{user} ({})", how_sure(edge)),
    }
}

fn call_row(graph: &Graph, edge: &Edge) -> Row {
    Row {
        path: graph.view().path(edge.file).to_owned(),
        line: edge.line,
        said: format!("→ {} ({})", place(graph, edge.to), how_sure(edge)),
    }
}

fn how_sure(edge: &Edge) -> String {
    match edge.among {
        0 | 1 => format!("{}: {}", edge.certainty.name(), edge.why.name()),
        among => format!("{}: {}, one of {among}", edge.certainty.name(), edge.why.name()),
    }
}

fn reached_rows(graph: &Graph, impact: &Impact) -> Vec<Row> {
    let rows = impact.reached.iter().map(|reached| {
        let what = match reached.symbol {
            Some(id) => format!("`{}`", graph.full_name(id)),
            None => "the top of the file".to_owned(),
        };
        let test = if reached.is_test { ", a test" } else { "" };
        let step = if reached.distance == 1 { "step" } else { "steps" };
        Row {
            path: graph.view().path(reached.file).to_owned(),
            line: reached.line,
            said: format!(
                "{what}, {} {step} away ({}){test}",
                reached.distance,
                reached.certainty.name()
            ),
        }
    });
    rows.collect()
}

fn foot(edges: &Edges) -> String {
    let mut foot = String::new();
    if edges.edges.is_empty() {
        foot.push_str("[none was found]\n");
    }
    if edges.cut > 0 {
        let _ = writeln!(foot, "[{} more are not shown]", edges.cut);
    }
    if edges.unexamined > 0 {
        let _ = writeln!(foot, "[{} more uses of the name were not looked at]", edges.unexamined);
    }
    foot
}

fn reached_foot(impact: &Impact) -> String {
    let mut foot = String::new();
    if impact.reached.is_empty() {
        foot.push_str("[none was found]\n");
    }
    if impact.possible > 0 {
        let _ = writeln!(
            foot,
            "[{} more uses fit by their name alone and were not followed; ask for callers to see them]",
            impact.possible
        );
    }
    if impact.is_cut {
        foot.push_str("[there may be more: the search came to its limit]\n");
    }
    foot
}

/// Writes rows with the code that stands there now; a place that is gone is left out and counted.
async fn show(context: &ToolContext<'_>, answer: &mut String, rows: &[Row]) -> Result<(), ToolError> {
    let places: Vec<(String, u64)> = rows.iter().map(|row| (row.path.clone(), u64::from(row.line))).collect();
    let code: HashMap<(String, u64), String> = match places.is_empty() {
        true => HashMap::new(),
        false => match files(context, FileRequest::Lines { places }).await? {
            FileReply::Lines { lines, .. } => lines
                .into_iter()
                .map(|line| ((line.path, line.line), line.text))
                .collect(),
            _ => return Err(super::unexpected("lines")),
        },
    };
    let mut gone = 0;
    for row in rows {
        match code.get(&(row.path.clone(), u64::from(row.line))) {
            Some(text) => {
                let text = text::cap_chars(text.trim(), MAX_LINE_CHARS);
                let _ = writeln!(answer, "{}:{} {}  {text}", row.path, row.line, row.said);
            }
            None => gone += 1,
        }
    }
    if gone > 0 {
        let _ = writeln!(answer, "[{gone} more stood in files that are gone]");
    }
    Ok(())
}

fn finish(answer: &str, notes: &[String]) -> String {
    let mut shown = text::cap(answer.trim_end(), MAX_BYTES);
    for note in notes {
        let _ = write!(shown, "\n[{note}]");
    }
    text::reveal(&shown)
}
