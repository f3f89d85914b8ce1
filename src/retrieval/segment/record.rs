//! The record of one blob: its symbols, references, imports and units. Texts are numbers of a small
//! table of the record itself, so that joining segments rewrites that table and copies the rest.
//! Called by `build`, `merge` and `read`. Never decodes more than what is asked for.

use super::bytes::{Bytes, put, put_signed};
use super::read::Segment;
use super::{ListKind, SegmentError};
use crate::retrieval::facts::{Facts, Import, Reference, ReferenceKind, Symbol, SymbolKind, Unit};

const SYMBOL_KINDS: &[SymbolKind] = &[
    SymbolKind::Function,
    SymbolKind::Method,
    SymbolKind::Class,
    SymbolKind::Interface,
    SymbolKind::Enum,
    SymbolKind::Variant,
    SymbolKind::Alias,
    SymbolKind::Module,
    SymbolKind::Variable,
    SymbolKind::Field,
    SymbolKind::Macro,
];
const REFERENCE_KINDS: &[ReferenceKind] = &[
    ReferenceKind::Call,
    ReferenceKind::Type,
    ReferenceKind::Super,
    ReferenceKind::Read,
    ReferenceKind::Binding,
];
/// Sections of a record.
const SECTIONS: usize = 4;

/// The texts of a record in the order of their first use, by the builder's numbers.
pub(super) trait Texts {
    /// The number of a text in this record's table.
    fn local(&mut self, text: &str) -> u32;
    /// The same for the text by which the symbol, reference or import at a place is listed, too.
    fn listed(&mut self, name: &str, kind: ListKind, at: u32) -> u32;
}

/// Encodes all but the table of texts.
pub(super) fn encode(facts: &Facts, note: Option<&str>, texts: &mut impl Texts) -> Vec<u8> {
    let sections = [
        symbols(&facts.symbols, texts),
        references(&facts.references, texts),
        imports(&facts.imports, texts),
        units(&facts.units),
    ];
    let mut body = Vec::new();
    put(&mut body, optional(note, texts));
    for section in &sections {
        put(&mut body, section.len() as u64);
    }
    body.extend(sections.iter().flatten());
    body
}

/// 0 for nothing, else the text's number and one.
fn optional(text: Option<&str>, texts: &mut impl Texts) -> u64 {
    text.map_or(0, |text| u64::from(texts.local(text)) + 1)
}

fn symbols(symbols: &[Symbol], texts: &mut impl Texts) -> Vec<u8> {
    let mut into = Vec::new();
    put(&mut into, symbols.len() as u64);
    let mut line = 0;
    for (at, symbol) in (0..).zip(symbols) {
        put(&mut into, u64::from(texts.listed(&symbol.name, ListKind::Symbols, at)));
        // Eleven kinds and whether there is an owner.
        into.push((number_of(SYMBOL_KINDS, symbol.kind)) << 1 | u8::from(symbol.owner.is_some()));
        put_signed(&mut into, i64::from(symbol.line) - line);
        put_signed(&mut into, i64::from(symbol.end_line) - i64::from(symbol.line));
        put(&mut into, symbol.parent.map_or(0, |parent| u64::from(parent) + 1));
        if let Some(owner) = &symbol.owner {
            put(&mut into, u64::from(texts.local(owner)));
        }
        line = i64::from(symbol.line);
    }
    into
}

fn references(references: &[Reference], texts: &mut impl Texts) -> Vec<u8> {
    let mut into = Vec::new();
    put(&mut into, references.len() as u64);
    let (mut line, mut within) = (0, None);
    for (at, reference) in (0..).zip(references) {
        put(
            &mut into,
            u64::from(texts.listed(&reference.name, ListKind::References, at)),
        );
        let is_super = reference.kind == ReferenceKind::Super;
        if is_super {
            texts.listed(&reference.name, ListKind::Extended, at);
        }
        let moved = reference.within != within;
        into.push(
            number_of(REFERENCE_KINDS, reference.kind) << 2
                | u8::from(moved) << 1
                | u8::from(reference.receiver.is_some()),
        );
        put_signed(&mut into, i64::from(reference.line) - line);
        if moved {
            put(&mut into, reference.within.map_or(0, |within| u64::from(within) + 1));
        }
        if let Some(receiver) = &reference.receiver {
            let number = match is_super {
                true => texts.listed(receiver, ListKind::Extends, at),
                false => texts.local(receiver),
            };
            put(&mut into, u64::from(number));
        }
        (line, within) = (i64::from(reference.line), reference.within);
    }
    into
}

fn imports(imports: &[Import], texts: &mut impl Texts) -> Vec<u8> {
    let mut into = Vec::new();
    put(&mut into, imports.len() as u64);
    for (at, import) in (0..).zip(imports) {
        put(&mut into, u64::from(texts.local(&import.module)));
        let name = match (import.name.as_deref(), &import.alias) {
            (Some(name), Some(_)) => u64::from(texts.listed(name, ListKind::Renames, at)) + 1,
            (name, _) => optional(name, texts),
        };
        put(&mut into, name);
        put(&mut into, optional(import.alias.as_deref(), texts));
        put(&mut into, u64::from(import.line));
    }
    into
}

fn units(units: &[Unit]) -> Vec<u8> {
    let mut into = Vec::new();
    put(&mut into, units.len() as u64);
    let mut next = 0;
    for unit in units {
        let symbol = unit.symbol.map_or(0, |symbol| i64::from(symbol) + 1);
        put_signed(&mut into, symbol - next);
        put(&mut into, u64::from(unit.words));
        next = symbol + 1;
    }
    into
}

fn number_of<K: PartialEq>(kinds: &[K], kind: K) -> u8 {
    kinds.iter().position(|other| *other == kind).unwrap_or_default() as u8
}

fn kind_of<K: Copy>(kinds: &[K], number: u8) -> Result<K, SegmentError> {
    let kind = kinds.get(usize::from(number)).copied();
    kind.ok_or(SegmentError::Damaged("a kind that does not exist"))
}

/// Splits a record into the numbers of its table and what follows.
pub(super) fn split(record: &[u8]) -> Result<(Vec<u32>, &[u8]), SegmentError> {
    let mut bytes = Bytes(record);
    let count = bytes.count()?;
    let mut texts = Vec::with_capacity(count);
    for _ in 0..count {
        texts.push(bytes.small()?);
    }
    Ok((texts, bytes.0))
}

/// A use of a name, with the numbers of its texts in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The name.
    pub name: u32,
    /// What stands before it.
    pub receiver: Option<u32>,
    /// How it is used.
    pub kind: ReferenceKind,
    /// Line, from 1.
    pub line: u32,
    /// The innermost symbol around it.
    pub within: Option<u32>,
}

/// A record that is read.
pub struct Record<'a> {
    segment: &'a Segment,
    texts: Vec<u32>,
    note: u64,
    sections: [&'a [u8]; SECTIONS],
}

impl<'a> Record<'a> {
    pub(super) fn new(segment: &'a Segment, record: &'a [u8]) -> Result<Self, SegmentError> {
        let (texts, rest) = split(record)?;
        let mut bytes = Bytes(rest);
        let note = bytes.number()?;
        let mut lengths = [0; SECTIONS];
        for length in &mut lengths {
            *length = bytes.count()?;
        }
        let mut sections = [&[][..]; SECTIONS];
        for (section, length) in sections.iter_mut().zip(lengths) {
            *section = bytes.take(length)?;
        }
        Ok(Self {
            segment,
            texts,
            note,
            sections,
        })
    }

    fn text(&self, local: u32) -> Result<Box<str>, SegmentError> {
        let id = self.texts.get(local as usize);
        let id = id.ok_or(SegmentError::Damaged("a text that does not exist"))?;
        self.segment.text(*id).map(|text| text.into_owned().into_boxed_str())
    }

    fn optional(&self, number: u64) -> Result<Option<Box<str>>, SegmentError> {
        let local = number.checked_sub(1).map(u32::try_from).transpose();
        let local = local.map_err(|_| SegmentError::Damaged("a text that does not exist"))?;
        local.map(|local| self.text(local)).transpose()
    }

    /// What extraction had to say of the blob.
    pub fn note(&self) -> Result<Option<Box<str>>, SegmentError> {
        self.optional(self.note)
    }

    /// All symbols.
    pub fn symbols(&self) -> Result<Vec<Symbol>, SegmentError> {
        let mut symbols = Vec::new();
        self.each_symbol(|_, raw| {
            symbols.push(self.symbol_of(&raw)?);
            Ok(true)
        })?;
        Ok(symbols)
    }

    /// One symbol.
    pub fn symbol(&self, wanted: u32) -> Result<Option<Symbol>, SegmentError> {
        let mut found = None;
        self.each_symbol(|at, raw| {
            if at == wanted {
                found = Some(self.symbol_of(&raw)?);
            }
            Ok(at < wanted)
        })?;
        Ok(found)
    }

    fn symbol_of(&self, raw: &RawSymbol) -> Result<Symbol, SegmentError> {
        Ok(Symbol {
            name: self.text(raw.name)?,
            kind: raw.kind,
            line: raw.line,
            end_line: raw.end_line,
            parent: raw.parent,
            owner: raw.owner.map(|owner| self.text(owner)).transpose()?,
        })
    }

    fn each_symbol(
        &self,
        mut found: impl FnMut(u32, RawSymbol) -> Result<bool, SegmentError>,
    ) -> Result<(), SegmentError> {
        let mut bytes = Bytes(self.sections[0]);
        let mut line = 0;
        for at in 0..bytes.count()? as u32 {
            let name = bytes.small()?;
            let kind = bytes.byte()?;
            line = step(line, bytes.signed()?)?;
            let end_line = step(line, bytes.signed()?)?;
            let parent = bytes.small()?.checked_sub(1);
            let owner = if kind & 1 != 0 { Some(bytes.small()?) } else { None };
            let kind = kind_of(SYMBOL_KINDS, kind >> 1)?;
            let raw = RawSymbol {
                name,
                kind,
                line,
                end_line,
                parent,
                owner,
            };
            if !found(at, raw)? {
                break;
            }
        }
        Ok(())
    }

    /// All references, with the numbers of their texts in the segment: nothing is decoded that nobody
    /// asks for.
    pub fn uses(&self) -> Result<Vec<Use>, SegmentError> {
        let mut uses = Vec::with_capacity(self.sections[1].len() / 5);
        let id = |local: u32| {
            let id = self.texts.get(local as usize).copied();
            id.ok_or(SegmentError::Damaged("a text that does not exist"))
        };
        self.each_reference(|_, raw| {
            uses.push(Use {
                name: id(raw.name)?,
                receiver: raw.receiver.map(id).transpose()?,
                kind: raw.kind,
                line: raw.line,
                within: raw.within,
            });
            Ok(true)
        })?;
        Ok(uses)
    }

    /// All references.
    pub fn references(&self) -> Result<Vec<Reference>, SegmentError> {
        let mut texts = vec![None; self.texts.len()];
        let mut references = Vec::new();
        self.each_reference(|_, raw| {
            references.push(self.reference_of(&raw, &mut texts)?);
            Ok(true)
        })?;
        Ok(references)
    }

    /// The references at these places, which are in order.
    pub fn references_at(&self, wanted: &[u32]) -> Result<Vec<Reference>, SegmentError> {
        let mut texts = vec![None; self.texts.len()];
        let mut references = Vec::with_capacity(wanted.len());
        let mut wanted = wanted.iter().copied().peekable();
        self.each_reference(|at, raw| {
            if wanted.next_if_eq(&at).is_some() {
                references.push(self.reference_of(&raw, &mut texts)?);
            }
            Ok(wanted.peek().is_some())
        })?;
        Ok(references)
    }

    /// A reference; texts that were met before are not looked up again.
    fn reference_of(&self, raw: &RawReference, texts: &mut [Option<Box<str>>]) -> Result<Reference, SegmentError> {
        let mut text = |local: u32| match texts.get_mut(local as usize) {
            Some(Some(text)) => Ok(text.clone()),
            Some(empty) => Ok(empty.insert(self.text(local)?).clone()),
            None => Err(SegmentError::Damaged("a text that does not exist")),
        };
        Ok(Reference {
            name: text(raw.name)?,
            kind: raw.kind,
            line: raw.line,
            within: raw.within,
            receiver: raw.receiver.map(text).transpose()?,
        })
    }

    fn each_reference(
        &self,
        mut found: impl FnMut(u32, RawReference) -> Result<bool, SegmentError>,
    ) -> Result<(), SegmentError> {
        let mut bytes = Bytes(self.sections[1]);
        let (mut line, mut within) = (0, None);
        for at in 0..bytes.count()? as u32 {
            let name = bytes.small()?;
            let kind = bytes.byte()?;
            line = step(line, bytes.signed()?)?;
            if kind & 2 != 0 {
                within = bytes.small()?.checked_sub(1);
            }
            let receiver = if kind & 1 != 0 { Some(bytes.small()?) } else { None };
            let kind = kind_of(REFERENCE_KINDS, kind >> 2)?;
            let raw = RawReference {
                name,
                kind,
                line,
                within,
                receiver,
            };
            if !found(at, raw)? {
                break;
            }
        }
        Ok(())
    }

    /// What the blob brings in.
    pub fn imports(&self) -> Result<Vec<Import>, SegmentError> {
        let mut bytes = Bytes(self.sections[2]);
        let count = bytes.count()?;
        let mut imports = Vec::with_capacity(count);
        for _ in 0..count {
            imports.push(Import {
                module: self.text(bytes.small()?)?,
                name: self.optional(bytes.number()?)?,
                alias: self.optional(bytes.number()?)?,
                line: bytes.small()?,
            });
        }
        Ok(imports)
    }

    /// Its units.
    pub fn units(&self) -> Result<Vec<Unit>, SegmentError> {
        let mut bytes = Bytes(self.sections[3]);
        let count = bytes.count()?;
        let mut units = Vec::with_capacity(count);
        let mut next = 0;
        for _ in 0..count {
            let symbol = step(next, bytes.signed()?)?;
            units.push(Unit {
                symbol: symbol.checked_sub(1),
                words: bytes.small()?,
            });
            next = symbol.saturating_add(1);
        }
        Ok(units)
    }
}

struct RawSymbol {
    name: u32,
    kind: SymbolKind,
    line: u32,
    end_line: u32,
    parent: Option<u32>,
    owner: Option<u32>,
}

struct RawReference {
    name: u32,
    kind: ReferenceKind,
    line: u32,
    within: Option<u32>,
    receiver: Option<u32>,
}

fn step(from: u32, by: i64) -> Result<u32, SegmentError> {
    let to = i64::from(from).checked_add(by).and_then(|to| u32::try_from(to).ok());
    to.ok_or(SegmentError::Damaged("a step that is too large"))
}
