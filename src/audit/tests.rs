//! Chains that were tampered with, each kind once.

use super::*;

fn entry(before: &Point, action: &str) -> Entry {
    let mut entry = Entry {
        seq: before.seq + 1,
        at: DateTime::from_timestamp_micros(1_700_000_000_123_456).unwrap(),
        actor: "github:mona".to_owned(),
        action: action.to_owned(),
        repository: Some("octo/words".to_owned()),
        subject: None,
        job: None,
        detail: "{}".to_owned(),
        prev: before.hash.clone(),
        hash: String::new(),
    };
    entry.hash = entry.digest();
    entry
}

fn chain(length: usize) -> Vec<Entry> {
    let mut chain: Vec<Entry> = Vec::new();
    for _ in 0..length {
        let before = chain.last().map_or_else(Point::origin, Entry::point);
        chain.push(entry(&before, "written"));
    }
    chain
}

fn faults(chain: &[Entry], head: Option<&Point>, anchors: &[Point]) -> Vec<(i64, FaultKind)> {
    let mut checker = Checker::new(Point::origin(), anchors);
    chain.iter().for_each(|entry| checker.add(entry));
    let faults = checker.end(head).faults;
    faults.into_iter().map(|fault| (fault.seq, fault.fault)).collect()
}

#[test]
fn a_chain_that_nobody_touched_is_whole() {
    let chain = chain(5);
    let head = chain[4].point();
    assert_eq!(faults(&chain, Some(&head), &[chain[2].point(), head.clone()]), []);
    assert_eq!(head.to_string().parse(), Ok(head));
}

#[test]
fn every_field_is_in_the_hash() {
    let base = &chain(1)[0];
    let changes: [fn(&mut Entry); 10] = [
        |entry| entry.seq = 2,
        |entry| entry.at += chrono::TimeDelta::microseconds(1),
        |entry| entry.actor.push('x'),
        |entry| entry.action.push('x'),
        |entry| entry.repository = None,
        |entry| entry.subject = Some(String::new()),
        |entry| entry.job = Some("x".to_owned()),
        |entry| entry.detail.push(' '),
        |entry| entry.prev.push('0'),
        // What moves from one field into the next one is another row.
        |entry| {
            entry.actor.push('w');
            entry.action.remove(0);
        },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(changed.digest(), base.hash, "change {at}");
    }
}

#[test]
fn a_changed_row_is_found_also_when_its_hash_was_made_anew() {
    let mut tampered = chain(5);
    tampered[2].actor = "github:mallory".to_owned();
    assert_eq!(faults(&tampered, None, &[]), [(3, FaultKind::Changed)]);
    tampered[2].hash = tampered[2].digest();
    assert_eq!(faults(&tampered, None, &[]), [(4, FaultKind::Unlinked)]);
    let head = chain(5)[4].point();
    let mut last = chain(5);
    last[4].actor = "github:mallory".to_owned();
    last[4].hash = last[4].digest();
    assert_eq!(faults(&last, Some(&head), &[]), [(5, FaultKind::Rewritten)]);
    assert_eq!(faults(&last, None, &[head]), [(5, FaultKind::Rewritten)]);
}

#[test]
fn removed_rows_are_found() {
    let whole = chain(6);
    let head = whole[5].point();
    let mut middle = whole.clone();
    middle.drain(2..4);
    assert_eq!(faults(&middle, Some(&head), &[]), [(5, FaultKind::Missing)]);
    let tail = &whole[..4];
    assert_eq!(faults(tail, Some(&head), &[]), [(5, FaultKind::Cut)]);
    assert_eq!(faults(tail, Some(&tail[3].point()), &[]), [], "the end was moved, too");
    assert_eq!(faults(tail, Some(&tail[3].point()), &[head]), [(5, FaultKind::Cut)]);
    assert_eq!(faults(&whole[1..], None, &[]), [(2, FaultKind::Missing)]);
}

#[test]
fn a_fork_and_another_order_are_found() {
    let mut forked = chain(3);
    let mut other = entry(&forked[1].point(), "answered");
    other.seq = 4;
    other.hash = other.digest();
    forked.push(other);
    assert_eq!(faults(&forked, None, &[]), [(4, FaultKind::Forked)]);
    let mut reordered = chain(4);
    reordered.swap(1, 2);
    assert_eq!(
        faults(&reordered, None, &[]),
        [
            (3, FaultKind::Missing),
            (2, FaultKind::Reordered),
            (4, FaultKind::Missing)
        ]
    );
    // Given each other's places, they are not what their hashes say.
    let mut renumbered = chain(4);
    renumbered.swap(1, 2);
    (renumbered[1].seq, renumbered[2].seq) = (2, 3);
    assert!(faults(&renumbered, None, &[]).contains(&(2, FaultKind::Changed)));
}

#[test]
fn a_chain_that_begins_later_has_to_say_so() {
    let whole = chain(4);
    let start = whole[1].point();
    let check = |rows: &[Entry], anchors: &[Point]| {
        let mut checker = Checker::new(start.clone(), anchors);
        rows.iter().for_each(|entry| checker.add(entry));
        let faults = checker.end(None).faults;
        faults
            .into_iter()
            .map(|fault| (fault.seq, fault.fault))
            .collect::<Vec<_>>()
    };
    assert_eq!(check(&whole[2..], &[]), [(2, FaultKind::Beginning)]);
    let mut stated = whole[2..].to_vec();
    let mut says = entry(&whole[3].point(), "audit_archived");
    says.detail = serde_json::json!({"through": start.to_string()}).to_string();
    says.hash = says.digest();
    stated.push(says);
    assert_eq!(check(&stated, std::slice::from_ref(&start)), []);
    assert_eq!(check(&stated, &[whole[0].point()]), [(1, FaultKind::Archived)]);
}

#[test]
fn details_are_bounded() {
    let act = Act::new(Action::Removed).with("reason", "x".repeat(10_000));
    assert!(act.detail_text().len() < 700);
    let many = (0..100).fold(act, |act, at| act.with(&format!("k{at}"), "y".repeat(400)));
    assert!(many.detail_text().starts_with("{\"left_out_bytes\":"));
    assert!("7:beef".parse::<Point>().is_err() && "x".parse::<Point>().is_err());
}
