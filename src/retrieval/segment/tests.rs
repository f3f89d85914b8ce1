//! A segment against a model of ordinary maps: what is built is read, joined segments are what one
//! built of all would be, and damage of any kind is an error. Never touches a file but a temporary one.

use std::collections::BTreeMap;
use std::io::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::retrieval::facts::{Facts, Import, Reference, ReferenceKind, Symbol, SymbolKind, Term, Unit};

const VERSION: u64 = 7;

fn name() -> impl Strategy<Value = Box<str>> {
    prop_oneof!["[a-c]{0,3}", "get[A-Z][a-z]{1,6}", "[ä-ü你好]{1,3}", "x{30,60}"].prop_map(String::into_boxed_str)
}

prop_compose! {
    fn symbol()(name in name(), kind in 0usize..4, line in 0u32..5000, more in 0u32..300,
                parent in proptest::option::of(0u32..9), owner in proptest::option::of(name())) -> Symbol {
        let kinds = [SymbolKind::Function, SymbolKind::Class, SymbolKind::Macro, SymbolKind::Field];
        Symbol { name, kind: kinds[kind], line, end_line: line + more, parent, owner }
    }
}

prop_compose! {
    fn reference()(name in name(), kind in 0usize..4, line in 0u32..5000, within in proptest::option::of(0u32..9),
                   receiver in proptest::option::of(name())) -> Reference {
        let kinds = [ReferenceKind::Call, ReferenceKind::Type, ReferenceKind::Super, ReferenceKind::Read];
        Reference { name, kind: kinds[kind], line, within, receiver }
    }
}

prop_compose! {
    fn import()(module in name(), name in proptest::option::of(name()), alias in proptest::option::of(name()),
                line in any::<u32>()) -> Import {
        Import { module, name, alias, line }
    }
}

prop_compose! {
    fn term()(text in name(), field in 0usize..3, unit in 0u32..20, count in 1u32..1000) -> Term {
        Term { text: text.into(), field: [Field::Part, Field::Whole, Field::Defined][field], unit, count }
    }
}

prop_compose! {
    fn facts()(symbols in vec(symbol(), 0..6), references in vec(reference(), 0..12), imports in vec(import(), 0..4),
               units in vec((proptest::option::of(0u32..9), any::<u32>()), 0..5), terms in vec(term(), 0..30),
               lines in any::<u32>()) -> Facts {
        let units = units.into_iter().map(|(symbol, words)| Unit { symbol, words }).collect();
        Facts { symbols, references, imports, units, terms, lines }
    }
}

fn key(id: u16, language: u8) -> BlobKey {
    let mut bytes = [0; 20];
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    BlobKey {
        id: BlobId(bytes),
        language,
    }
}

type Blobs = BTreeMap<BlobKey, (Facts, Traits, Option<String>)>;

fn blobs(max: usize) -> impl Strategy<Value = Blobs> {
    let blob = (
        facts(),
        any::<bool>(),
        any::<bool>(),
        proptest::option::of("[a-z ]{1,9}"),
    );
    let blob = blob.prop_map(|(facts, is_binary, is_opaque, note)| {
        (
            facts,
            Traits {
                language: 3,
                is_binary,
                is_opaque,
            },
            note,
        )
    });
    vec(
        ((0u16..40, 0u8..3).prop_map(|(id, language)| key(id, language)), blob),
        0..max,
    )
    .prop_map(|blobs| blobs.into_iter().collect())
}

fn build<'a>(blobs: impl IntoIterator<Item = (&'a BlobKey, &'a (Facts, Traits, Option<String>))>) -> Vec<u8> {
    let mut builder = Builder::default();
    for (key, (facts, traits, note)) in blobs {
        builder.add(*key, *traits, facts, note.as_deref());
    }
    let (bytes, built) = builder.write(Vec::new(), VERSION).unwrap();
    assert_eq!(built.bytes, bytes.len() as u64);
    assert!(builder.is_empty());
    bytes
}

fn open(bytes: &[u8]) -> Segment {
    Segment::of_memory(bytes.to_vec(), VERSION).unwrap()
}

/// Every word with every list of it.
type Words = BTreeMap<(String, ListKind), Vec<(u32, u32, u32)>>;

fn words_of(segment: &Segment) -> Words {
    let mut words = Words::new();
    let mut entries = Vec::new();
    segment
        .each_word("", |word, entry| {
            entries.push((word.to_owned(), *entry));
            true
        })
        .unwrap();
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    for needle in ["a", "get", "ab", "你"] {
        let with = entries
            .iter()
            .filter(|(word, _)| word.contains(needle))
            .map(|(_, entry)| *entry);
        assert_eq!(segment.words_with(needle).unwrap(), with.collect::<Vec<_>>());
    }
    for (word, entry) in entries {
        assert_eq!(segment.word(&word).unwrap(), Some(entry));
        assert_eq!(segment.text(entry.id).unwrap(), word);
        for kind in ListKind::ALL.into_iter().filter(|kind| entry.has(*kind)) {
            let mut places = Vec::new();
            let mut blobs = 0;
            let add = |blob, found: &[(u32, u32)]| {
                places.extend(found.iter().map(|(at, count)| (blob, *at, *count)));
                blobs += 1;
            };
            segment.each_place(&entry, kind, add).unwrap();
            assert_eq!(entry.blobs(kind), blobs);
            words.insert((word.clone(), kind), places);
        }
    }
    words
}

/// The same from the facts, with plain maps.
fn words_in(blobs: &Blobs) -> Words {
    let mut words: BTreeMap<(String, ListKind), BTreeMap<(u32, u32), u32>> = BTreeMap::new();
    for (blob, (facts, ..)) in (0..).zip(blobs.values()) {
        let mut add = |word: &str, kind, at, count| {
            let places = words.entry((word.to_owned(), kind)).or_default();
            *places.entry((blob, at)).or_default() += count;
        };
        for term in &facts.terms {
            add(&term.text, term.field.into(), term.unit, term.count);
        }
        for (at, symbol) in (0..).zip(&facts.symbols) {
            add(&symbol.name, ListKind::Symbols, at, 1);
        }
        for (at, reference) in (0..).zip(&facts.references) {
            add(&reference.name, ListKind::References, at, 1);
            if reference.kind == ReferenceKind::Super {
                add(&reference.name, ListKind::Extended, at, 1);
                if let Some(receiver) = &reference.receiver {
                    add(receiver, ListKind::Extends, at, 1);
                }
            }
        }
        for (at, import) in (0..).zip(&facts.imports) {
            if let (Some(name), Some(_)) = (&import.name, &import.alias) {
                add(name, ListKind::Renames, at, 1);
            }
        }
    }
    let flat = |places: BTreeMap<(u32, u32), u32>| places.into_iter().map(|((blob, at), count)| (blob, at, count));
    words
        .into_iter()
        .map(|(word, places)| (word, flat(places).collect()))
        .collect()
}

fn check(segment: &Segment, blobs: &Blobs) {
    assert_eq!(segment.blobs() as usize, blobs.len());
    for (at, (key, (facts, traits, note))) in (0..).zip(blobs) {
        assert_eq!(segment.find(key).unwrap(), Some(at));
        assert_eq!(segment.key(at).unwrap(), *key);
        let row = segment.row(at).unwrap();
        assert_eq!(
            (row.lines, row.units, row.traits),
            (facts.lines, facts.units.len() as u32, *traits)
        );
        assert_eq!(row.has_note, note.is_some());
        let record = segment.record(at).unwrap();
        assert_eq!(record.symbols().unwrap(), facts.symbols);
        assert_eq!(record.references().unwrap(), facts.references);
        assert_eq!(record.imports().unwrap(), facts.imports);
        assert_eq!(record.units().unwrap(), facts.units);
        assert_eq!(record.note().unwrap().as_deref(), note.as_deref());
        for (at, symbol) in (0..).zip(&facts.symbols) {
            assert_eq!(record.symbol(at).unwrap().as_ref(), Some(symbol));
        }
        let odd: Vec<u32> = (0..facts.references.len() as u32).filter(|at| at % 2 == 1).collect();
        let expected: Vec<Reference> = odd.iter().map(|at| facts.references[*at as usize].clone()).collect();
        assert_eq!(record.references_at(&odd).unwrap(), expected);
    }
    assert_eq!(words_of(segment), words_in(blobs));
    assert_eq!(segment.find(&key(999, 1)).unwrap(), None);
    assert_eq!(segment.word("nobody wrote this").unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_built_is_read(blobs in blobs(12)) {
        check(&open(&build(&blobs)), &blobs);
    }

    #[test]
    fn joined_segments_are_what_one_of_all_would_be(all in blobs(16), cut in 0u8..4, gone in 0u16..40) {
        let parts: Vec<Vec<u8>> = (0..=cut)
            .map(|part| build(all.iter().filter(|(key, _)| key.id.0[1] % (cut + 1) == part || key.id.0[1] == 0)))
            .collect();
        let parts: Vec<Segment> = parts.iter().map(|bytes| open(bytes)).collect();
        let parts: Vec<&Segment> = parts.iter().collect();
        let (joined, _) = merge(&parts, |_, _| true, Vec::new(), VERSION).unwrap();
        check(&open(&joined), &all);

        let is_kept = |key: &BlobKey| u16::from(key.id.0[1]) != gone;
        let wanted = |at: usize, blob| is_kept(&parts[at].key(blob).unwrap());
        let (fewer, _) = merge(&parts, wanted, Vec::new(), VERSION).unwrap();
        let kept: Blobs = all.into_iter().filter(|(key, _)| is_kept(key)).collect();
        check(&open(&fewer), &kept);
        // Nothing is left of what was dropped, not even a word.
        prop_assert!(fewer == build(&kept));
    }

    #[test]
    fn a_damaged_file_is_an_error(blobs in blobs(8), cut in any::<prop::sample::Index>(), flips in vec((any::<prop::sample::Index>(), 1u8..=255), 1..4)) {
        let whole = build(&blobs);
        let mut damaged = whole.clone();
        for (at, flip) in flips {
            damaged[at.index(whole.len())] ^= flip;
        }
        for bytes in [&damaged[..], &whole[..cut.index(whole.len())]] {
            if bytes == whole {
                continue;
            }
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(bytes).unwrap();
            if let Ok(segment) = Segment::open(file.path(), VERSION) {
                prop_assert!(read_all(&segment).is_err(), "damage was not noticed");
                segment.check_all();
                prop_assert!(segment.is_damaged());
            }
        }
    }

    #[test]
    fn a_lying_file_is_no_panic(blobs in blobs(6), flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        // In memory, checksums are not looked at: whatever the bytes say has to be survived.
        let mut bytes = build(&blobs);
        let end = bytes.len().saturating_sub(48);
        for (at, value) in flips {
            if end > 0 {
                bytes[at.index(end)] = value;
            }
        }
        let length = bytes.len();
        let sum = crc32fast::hash(&bytes[length - 40 - sums_of(&bytes)..length - 4]);
        bytes[length - 4..].copy_from_slice(&sum.to_le_bytes());
        if let Ok(segment) = Segment::of_memory(bytes, VERSION) {
            let _ = read_all(&segment);
            let _ = merge(&[&segment, &segment], |_, _| true, Vec::new(), VERSION);
        }
    }
}

/// Bytes of the checksums of a file, by its own account.
fn sums_of(bytes: &[u8]) -> usize {
    let at = bytes.len() - 4 - 8 - 8;
    let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes.len() - 40 - length as usize
}

fn read_all(segment: &Segment) -> Result<(), SegmentError> {
    for blob in 0..segment.blobs() {
        segment.key(blob)?;
        segment.row(blob)?;
        let record = segment.record(blob)?;
        record.symbols()?;
        record.references()?;
        record.imports()?;
        record.units()?;
        record.note()?;
    }
    let mut words = Vec::new();
    segment.each_word("", |word, entry| {
        words.push((word.to_owned(), *entry));
        true
    })?;
    segment.words_with("ab")?;
    for (word, entry) in words {
        segment.word(&word)?;
        for kind in ListKind::ALL {
            segment.each_place(&entry, kind, |_, _| ())?;
        }
    }
    // What no record and no list covers: the padding of nothing, so every block is read.
    segment.check_all();
    if segment.is_damaged() {
        return Err(SegmentError::Damaged("a block"));
    }
    Ok(())
}

#[test]
fn another_version_is_told_from_damage() {
    let bytes = build(&Blobs::new());
    assert!(matches!(
        Segment::of_memory(bytes.clone(), VERSION + 1),
        Err(SegmentError::OtherVersion)
    ));
    assert!(matches!(
        Segment::of_memory(bytes[1..].to_vec(), VERSION),
        Err(SegmentError::Damaged(_))
    ));
    assert!(matches!(
        Segment::of_memory(Vec::new(), VERSION),
        Err(SegmentError::Damaged(_))
    ));
}
