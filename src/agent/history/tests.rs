//! Logs and the working sets that are folded of them. Never only logs as a run writes them: any
//! log must fold to something that the strictest server takes.

use proptest::prelude::*;

use super::*;
use crate::model::FinishReason;

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "grep".to_owned(),
        arguments: "{}".to_owned(),
    }
}

fn calls(ids: &[&str]) -> Message {
    Message {
        role: Role::Assistant,
        tool_calls: ids.iter().map(|id| call(id)).collect(),
        ..Message::user("")
    }
}

fn replied(message: Message) -> Entry {
    Entry::of_old(message)
}

fn output(id: &str, content: &str) -> Entry {
    Entry::said(Message::tool(id, content))
}

fn user(words: &str) -> Entry {
    Entry::said(Message::user(words))
}

fn folded(entries: &[Entry]) -> History {
    let mut history = History::new("fence", &[]);
    entries.iter().for_each(|entry| history.take(entry));
    history
}

fn shape(history: &History) -> String {
    let words = history.messages().into_iter().map(|message| {
        let id = message.tool_call_id.clone().unwrap_or_default();
        match message.role {
            Role::Tool if message.content == INTERRUPTED => format!("{id}!"),
            Role::Tool => id,
            Role::Assistant => format!("A{}", message.tool_calls.len()),
            Role::User => "U".to_owned(),
            Role::System => "S".to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(entries: &[Entry], expected: &str, open: &[&str]) {
    let history = folded(entries);
    assert_eq!(shape(&history), expected);
    let left = history.unanswered();
    assert_eq!(left.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), open);
}

#[test]
fn l17_every_call_gets_its_output_after_an_interruption() {
    check(&[user("x"), replied(calls(&["a", "b"]))], "U A2", &["a", "b"]);
    check(
        &[user("x"), replied(calls(&["a", "b"])), output("a", "x")],
        "U A2 a",
        &["b"],
    );
    check(&[user("x"), replied(calls(&["a"])), user("y")], "U A1 a! U", &[]);
    check(
        &[user("x"), replied(calls(&["a"])), output("a", "x"), output("a", "y")],
        "U A1 a",
        &[],
    );
    check(&[user("x"), output("z", "x"), replied(calls(&[]))], "U A0", &[]);
    check(&[user("x"), replied(calls(&["a", "a"]))], "U A1", &["a"]);
}

#[test]
fn l16_words_of_ours_never_come_between_calls_and_outputs() {
    let log = [
        user("x"),
        replied(calls(&["a", "b"])),
        output("a", "x"),
        user("one"),
        user("two"),
        output("b", "late"),
    ];
    check(&log, "U A2 a b! U", &[]);
    assert_eq!(folded(&log).messages()[4].content, "one\n\ntwo");
}

#[test]
fn a_conversation_that_begins_anew_shows_nothing_of_the_old_one() {
    let log = [
        user("old"),
        replied(calls(&["a"])),
        Entry::Restarted,
        Entry::said(Message::system("s")),
        user("new"),
    ];
    check(&log, "S U", &[]);
    let history = folded(&log);
    assert_eq!((history.length(), history.replies()), (5, 0));
    assert_eq!(history.tokens(), folded(&log[3..]).tokens());
}

/// Turns with one call each, whose outputs have these sizes.
fn turns(sizes: &[usize]) -> Vec<Entry> {
    let mut log = vec![Entry::said(Message::system("s")), user("brief")];
    for size in sizes {
        let mut reply = calls(&["a"]);
        reply.reasoning = "thought".to_owned();
        log.push(replied(reply));
        log.push(output("a", &"x".repeat(*size)));
    }
    log
}

#[test]
fn c7_old_output_and_reasoning_are_dropped_and_calls_stay() {
    let mut log = turns(&[5_000, 10, 5_000]);
    let before = folded(&log);
    log.push(Entry::Shed { before: 6 });
    let history = folded(&log);
    assert_eq!(shape(&history), shape(&before));
    let messages = history.messages();
    assert!(messages[3].content.starts_with("[5000 bytes of output were dropped"));
    assert_eq!(
        (messages[2].reasoning.as_str(), messages[6].reasoning.as_str()),
        ("", "thought")
    );
    assert_eq!(messages[5].content.len(), 10, "small ones stay");
    assert_eq!(messages[7].content.len(), 5_000, "recent ones stay");
    assert!(history.tokens() + 1_500 < before.tokens());
}

#[test]
fn c7_a_summary_stands_for_whole_turns_behind_the_brief() {
    let mut log = turns(&[10, 10, 10, 10]);
    log.push(Entry::Summarised {
        from: 2,
        to: 6,
        summary: "Two turns.".to_owned(),
        by: None,
    });
    check(&log, "S U A1 a A1 a", &[]);
    let brief = |log: &[Entry]| folded(log).messages()[1].content.clone();
    assert!(brief(&log).starts_with("brief\n\n# What happened so far"));
    assert!(brief(&log).contains("<untrusted-fence>\nTwo turns.\n</untrusted-fence>"));
    // The next one ends in the middle of a turn, which therefore stays.
    log.push(Entry::Summarised {
        from: 2,
        to: 9,
        summary: "Three turns.".to_owned(),
        by: None,
    });
    check(&log, "S U A1 a", &[]);
    assert!(brief(&log).contains("Three turns.") && !brief(&log).contains("Two turns."));
    assert_eq!(folded(&log).replies(), 4, "replies that are not shown count");
}

#[test]
fn the_servers_count_of_tokens_is_taken_up_where_it_can_be_believed() {
    let told = |input_tokens: u64, reported: bool| {
        let mut log = vec![user(&"x".repeat(9_000))];
        log.push(Entry::Replied {
            message: Arc::new(calls(&[])),
            finish: FinishReason::Stop,
            usage: Usage {
                input_tokens,
                output_tokens: 1,
                reported,
            },
            cost_usd: None,
            model: String::new(),
            request_sha256: String::new(),
            took_ms: 0,
        });
        folded(&log).tokens()
    };
    let ours = told(0, false);
    assert!((3_000..3_050).contains(&ours), "{ours}");
    assert!((1_990..2_050).contains(&told(2_000, true)));
    assert_eq!(told(100, true), ours, "a server that cuts says too little");
    assert_eq!(told(900_000, true), ours);
}

#[test]
fn the_fingerprint_of_a_request_follows_what_is_shown() {
    let log = turns(&[10, 20]);
    let sha256 = |log: &[Entry]| folded(log).request_sha256();
    assert_eq!(sha256(&log), sha256(&turns(&[10, 20])));
    assert_ne!(sha256(&log), sha256(&turns(&[10, 21])));
    let mut history = folded(&log[..4]);
    history.request_sha256();
    log[4..].iter().for_each(|entry| history.take(entry));
    assert_eq!(
        history.request_sha256(),
        sha256(&log),
        "also when it is made bit by bit"
    );
    let timed = |took: &str| [user("x"), replied(calls(&["a"])), output("a", took)];
    assert_eq!(
        sha256(&timed("[exit code 0, 2 s]")),
        sha256(&timed("[exit code 0, 15 s]"))
    );
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let id = || prop::sample::select(vec!["a", "b", "c"]);
    let text = prop::sample::select(vec![0usize, 5, 3_000]);
    prop_oneof![
        3 => prop::collection::vec(id(), 0..4).prop_map(|ids| {
            let mut reply = calls(&ids);
            reply.content = "said".to_owned();
            reply.reasoning = "thought".to_owned();
            replied(reply)
        }),
        5 => (id(), text).prop_map(|(id, size)| output(id, &"x".repeat(size))),
        1 => Just(user("remark")),
        1 => Just(Entry::Refused { why: "too long".to_owned() }),
        1 => (0u64..60).prop_map(|before| Entry::Shed { before }),
        1 => (0u64..60, 0u64..60).prop_map(|(from, to)| Entry::Summarised {
            from,
            to,
            summary: "summary".to_owned(),
            by: None,
        }),
    ]
}

/// What the strictest server refuses, once the calls that are still open were answered.
fn refused(history: &History) -> Option<String> {
    let messages = history.messages();
    if messages.first().map(|first| first.role) != Some(Role::System) {
        return Some("the rules do not come first".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match (message.role, &message.tool_call_id) {
            (Role::Tool, Some(id)) => match open.iter().position(|open| open == id) {
                Some(found) => drop(open.remove(found)),
                None => return Some(format!("message {at}: an output of no call")),
            },
            (Role::System, _) if at > 0 => return Some(format!("message {at}: rules again")),
            _ if !open.is_empty() => return Some(format!("message {at}: calls {open:?} have no output")),
            _ => open = message.tool_calls.iter().map(|call| call.id.as_str()).collect(),
        }
    }
    let left = history.unanswered();
    let left: Vec<&str> = left.iter().map(|call| call.id.as_str()).collect();
    (open != left).then(|| format!("{open:?} are open and {left:?} are said to be"))
}

proptest! {
    #[test]
    fn c7_l16_any_log_folds_to_what_the_strictest_server_takes(entries in prop::collection::vec(any_entry(), 0..50)) {
        let mut history = History::new("fence", &[]);
        history.take(&Entry::said(Message::system("rules")));
        history.take(&user("brief"));
        for entry in &entries {
            history.take(entry);
            prop_assert_eq!(refused(&history), None);
            let counted: u64 = history.opening.iter().chain(&history.summary).chain(&history.rest).map(|shown| shown.tokens).sum();
            prop_assert_eq!(history.counted, counted);
        }
        let replies = entries.iter().filter(|entry| matches!(entry, Entry::Replied { .. })).count();
        prop_assert_eq!(history.replies() as usize, replies);
        prop_assert_eq!(history.length() as usize, entries.len() + 2);
    }
}
