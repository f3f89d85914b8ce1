//! The record of a local run as a transcript: its conversations, agent by agent. A record holds
//! what was said and not what people saw beside it, such as checks. Never guesses what it lacks.

use std::collections::HashMap;
use std::io::Write;

use super::page::Page;
use crate::app::record::Recorded;
use crate::conversation::{Entry, MAIN};
use crate::event::Totals;
use crate::model::{Message, Role, ToolCall};

/// Writes a record, and returns what it all took.
pub(super) fn write<W: Write>(page: &mut Page<W>, recorded: &Recorded) -> Totals {
    let record = &recorded.record;
    page.heading(&format!(
        "{} at {}, with {}",
        record.brief.title,
        record.base.short(),
        record.model
    ));
    let mut totals = Totals::default();
    for (agent, log) in &recorded.logs {
        if agent != MAIN {
            page.heading(&format!("The helper {agent}"));
        }
        let mut calls = HashMap::new();
        let mut turn = 0;
        for entry in log {
            write_entry(page, entry, &mut turn, &mut calls, &mut totals);
        }
    }
    if let Some(end) = &recorded.end {
        page.heading("The end");
        page.note(&serde_json::to_string(&end.stop).unwrap_or_default());
    }
    totals
}

fn write_entry<W: Write>(
    page: &mut Page<W>,
    entry: &Entry,
    turn: &mut u32,
    calls: &mut HashMap<String, ToolCall>,
    totals: &mut Totals,
) {
    match entry {
        Entry::Said { message } => said(page, message, *turn, calls),
        Entry::Replied {
            message,
            usage,
            cost_usd,
            took_ms,
            ..
        } => {
            *turn += 1;
            totals.turns += 1;
            totals.input_tokens += usage.input_tokens;
            totals.output_tokens += usage.output_tokens;
            totals.cost_usd += cost_usd.unwrap_or(0.0);
            totals.price_unknown |= cost_usd.is_none();
            page.turn(None, *turn, usage, *cost_usd, *took_ms);
            page.reply(&message.content, &message.reasoning);
            let made = message.tool_calls.iter();
            calls.extend(made.map(|call| (call.id.clone(), call.clone())));
        }
        Entry::Refused { why } => page.note(&format!("the conversation was too long for the model: {why}")),
        Entry::Shed { .. } => page.note("old outputs are not shown to the model any more"),
        Entry::Summarised { summary, .. } => page.remark(summary),
        Entry::Restarted => page.note("the conversation begins anew"),
    }
}

/// The instructions and the brief come before the first turn and are the same in each run.
fn said<W: Write>(page: &mut Page<W>, message: &Message, turn: u32, calls: &HashMap<String, ToolCall>) {
    let call = message.tool_call_id.as_ref().and_then(|id| calls.get(id));
    match (message.role, call) {
        (Role::Tool, Some(call)) => page.recorded_call(&call.name, &call.arguments, &message.content),
        (Role::User | Role::Tool, _) if turn > 0 => page.remark(&message.content),
        _ => {}
    }
}
