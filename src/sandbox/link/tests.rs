//! Links that are lied to, and two ends that are joined: what passes is whole, and what an end holds
//! is bounded whatever the other says.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

fn frames() -> impl Strategy<Value = Frame> {
    // Low numbers, so that many name a connection that is there.
    let number = 0u32..6;
    let data = prop::collection::vec(any::<u8>(), 1..200);
    prop_oneof![
        Just(Frame::Ready),
        (1u32..9).prop_map(Frame::Read),
        number.clone().prop_map(Frame::Open),
        (number.clone(), data).prop_map(|(number, data)| Frame::Data(number, data)),
        number.clone().prop_map(|number| Frame::Data(number, vec![1; MAX_DATA])),
        number.clone().prop_map(Frame::Done),
        number.clone().prop_map(Frame::Gone),
        (number, 1u32..3_000_000).prop_map(|(number, room)| Frame::Room(number, room)),
    ]
}

/// Everything that an end keeps of what it was told.
fn held(link: &Link) -> usize {
    let table = locked(&link.table);
    table
        .values()
        .map(|connection| locked(&connection.inbox).bytes.len())
        .sum()
}

#[track_caller]
fn is_bounded(link: &Link, unread: &Unread) {
    assert!(link.count() <= MOST_TAKEN);
    assert!(held(link) <= link.count() * OUTWARD_WINDOW);
    assert!(unread.len() < 9 + MAX_DATA + MAX_STEP);
}

const MAX_STEP: usize = 4_000;

/// Hears all of it, or stops at the first breach; the connections that begin are kept, unserved.
fn hear(bytes: &[u8], step: usize) -> (Link, Result<(), Breach>) {
    let (mut link, _waiting) = Link::new(End::Outer);
    let (mut unread, mut begun) = (Unread::default(), Vec::new());
    for piece in bytes.chunks(step.clamp(1, MAX_STEP)) {
        unread.push(piece);
        is_bounded(&link, &unread);
        loop {
            match unread
                .next()
                .and_then(|frame| frame.map(|frame| link.take(frame)).transpose())
            {
                Ok(None) => break,
                Ok(Some(joint)) => begun.extend(joint),
                Err(breach) => return (link, Err(breach)),
            }
            is_bounded(&link, &unread);
        }
    }
    (link, Ok(()))
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    bytes
}

proptest! {
    #[test]
    fn frames_come_back_wherever_the_stream_is_cut(
        frames in prop::collection::vec(frames(), 0..20),
        step in 1usize..5_000,
    ) {
        let sound: Vec<_> = frames
            .into_iter()
            .filter(|frame| !matches!(frame, Frame::Open(0) | Frame::Data(0, _) | Frame::Done(0) | Frame::Gone(0) | Frame::Room(0, _)))
            .collect();
        let mut unread = Unread::default();
        let mut found = Vec::new();
        for piece in written(&sound).chunks(step) {
            unread.push(piece);
            while let Some(frame) = unread.next().expect("sense") {
                found.push(frame);
            }
        }
        prop_assert_eq!(found, sound);
    }

    #[test]
    fn n11_frames_in_any_order_are_bounded(frames in prop::collection::vec(frames(), 0..200), step in 1usize..5_000) {
        let _ = hear(&written(&frames), step);
    }

    #[test]
    fn n11_any_bytes_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..4_000), step in 1usize..5_000) {
        let _ = hear(&bytes, step);
    }
}

/// An honest stream, as a program inside could cause it.
fn honest(random: &mut fastrand::Rng) -> Vec<u8> {
    let (mut sent, mut left) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let at = random.usize(..=left.len());
        let number = u32::try_from(at + 1).expect("a small number");
        match left.get_mut(at) {
            None => {
                left.push(OUTWARD_WINDOW);
                sent.push(Frame::Open(number));
            }
            Some(0) => {}
            Some(room) if random.u8(..8) == 0 => {
                *room = 0;
                sent.push(Frame::Done(number));
            }
            Some(room) => {
                let length = random.usize(1..=MAX_DATA).min(*room);
                *room -= length;
                sent.push(Frame::Data(number, vec![7; length]));
            }
        }
    }
    written(&sent)
}

/// `FORGEHAND_TEST_SEED` takes one seed up again.
#[test]
#[allow(clippy::disallowed_methods)] // a person who looks for a fault names the seed
fn n11_long_streams_with_mistakes_are_bounded() {
    let given = std::env::var("FORGEHAND_TEST_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a seed is a number"));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let mut bytes = honest(&mut random);
        assert_eq!(hear(&bytes, random.usize(1..=MAX_STEP)).1, Ok(()), "seed {seed}");
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] ^= 1 << random.u8(..8),
                1 => bytes.truncate(at.max(1)),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let _ = hear(&bytes, random.usize(1..=MAX_STEP));
    }
}

#[test]
fn who_breaks_a_rule_is_told_which() {
    let full = vec![1; MAX_DATA];
    let flood: Vec<_> = std::iter::once(Frame::Open(1))
        .chain((0..=OUTWARD_WINDOW / MAX_DATA).map(|_| Frame::Data(1, full.clone())))
        .collect();
    let crowd: Vec<_> = (1..).take(MOST_TAKEN + 1).map(Frame::Open).collect();
    for (frames, expected) in [
        (vec![Frame::Ready], "out of turn"),
        (vec![Frame::Open(2)], "out of turn"),
        (vec![Frame::Open(1), Frame::Open(1)], "out of turn"),
        (vec![Frame::Done(1)], "never began"),
        (vec![Frame::Data(u32::MAX, vec![1])], "never began"),
        (vec![Frame::Open(1), Frame::Done(1), Frame::Done(1)], "ends twice"),
        (
            vec![Frame::Open(1), Frame::Done(1), Frame::Data(1, vec![1])],
            "has ended",
        ),
        (vec![Frame::Open(1), Frame::Room(1, 1)], "more room"),
        (vec![Frame::Open(1), Frame::Room(1, u32::MAX)], "more room"),
        (flood, "room for"),
        (crowd, "more connections"),
    ] {
        let (_, heard) = hear(&written(&frames), 1000);
        let breach = heard.expect_err(expected);
        assert!(breach.to_string().contains(expected), "{breach}: {expected}");
    }
    // What was on its way to a connection that is over is nobody's fault.
    let late = [
        Frame::Open(1),
        Frame::Gone(1),
        Frame::Data(1, vec![1]),
        Frame::Room(1, 5),
        Frame::Gone(1),
    ];
    assert_eq!(hear(&written(&late), 7).1, Ok(()));
    for bytes in [
        &b"X\0\0\0\0\0\0\0\0"[..],
        b"D\x01\0\0\0\xff\xff\xff\xff",
        b"D\x01\0\0\0\0\0\0\0",
        b"O\0\0\0\0\0\0\0\0",
    ] {
        assert!(hear(bytes, 3).1.is_err(), "{bytes:?}");
    }
}

/// Takes frames from one end to the other until nobody sends any more.
async fn pump(
    mut from: mpsc::Receiver<Frame>,
    to: Arc<tokio::sync::Mutex<Link>>,
    joints: mpsc::UnboundedSender<Joint>,
) {
    while let Some(frame) = from.recv().await {
        if let Some(joint) = to.lock().await.take(frame).expect("both ends are honest") {
            let _ = joints.send(joint);
        }
    }
}

#[tokio::test]
async fn bytes_pass_whole_in_both_directions_through_small_windows() {
    let ((inner, from_inner), (outer, from_outer)) = (Link::new(End::Inner), Link::new(End::Outer));
    let (inner, outer) = (
        Arc::new(tokio::sync::Mutex::new(inner)),
        Arc::new(tokio::sync::Mutex::new(outer)),
    );
    let (joints, mut begun) = mpsc::unbounded_channel();
    tokio::spawn(pump(from_inner, outer.clone(), joints.clone()));
    tokio::spawn(pump(from_outer, inner.clone(), joints));
    // The far side gives back what it gets, in upper case.
    tokio::spawn(async move {
        while let Some(joint) = begun.recv().await {
            let (near, far) = duplex(500);
            tokio::spawn(joint.pass(near));
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(far);
                let mut block = vec![0; 3_000];
                while let Ok(length @ 1..) = from.read(&mut block).await {
                    block[..length].make_ascii_uppercase();
                    to.write_all(&block[..length]).await.expect("it is read");
                }
                to.shutdown().await.expect("an end");
            });
        }
    });
    let mut asked = Vec::new();
    for number in 0..20 {
        let (near, far) = duplex(700);
        let (opening, joint) = inner.lock().await.begin().expect("a number");
        let out = inner.lock().await.out().clone();
        out.send(opening).await.expect("a link");
        tokio::spawn(joint.pass(near));
        asked.push(tokio::spawn(async move {
            let sent = vec![b'a' + number; 3 * OUTWARD_WINDOW + usize::from(number)];
            let (mut from, mut to) = tokio::io::split(far);
            let mut found = Vec::new();
            let (written, read) = tokio::join!(
                async {
                    to.write_all(&sent).await?;
                    to.shutdown().await
                },
                from.read_to_end(&mut found)
            );
            written.expect("it is taken");
            read.expect("it comes back");
            assert_eq!(found, sent.to_ascii_uppercase());
        }));
    }
    for asked in asked {
        asked.await.expect("a connection");
    }
    for end in [&inner, &outer] {
        while end.lock().await.count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_at_one_end_breaks_at_the_other_and_a_link_breaks_all() {
    let (mut link, mut said) = Link::new(End::Outer);
    let mut open = |number| link.take(Frame::Open(number)).expect("its turn").expect("a connection");
    let (first, second, third) = (open(1), open(2), open(3));
    let (near, mut far) = duplex(100);
    let passing = tokio::spawn(first.pass(near));
    link.take(Frame::Gone(1)).expect("it is there");
    passing.await.expect("it ends");
    assert_eq!(far.read(&mut [0]).await.expect("an end"), 0);
    second.refuse().await;
    assert_eq!(said.recv().await, Some(Frame::Gone(2)));
    let (near, mut far) = duplex(100);
    // Nobody reads what is to be written: that keeps nothing from its end.
    link.take(Frame::Data(3, vec![1; 200])).expect("there is room");
    let passing = tokio::spawn(third.pass(near));
    drop(link);
    passing.await.expect("it ends");
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).await.expect("an end");
    assert!(rest.len() <= 100);
}
