//! What a query finds in a tree, as places in the text: symbols, uses of names, local names. Made by
//! the reading of a tree, and all that the building of facts knows of it.
//! Never holds a node of the tree.

use std::ops::Range;

use super::binding::Binding;
use super::query::{LocalKind, Use};
use crate::code::facts::SymbolKind;

/// Everything that the query found.
#[derive(Debug, Default)]
pub struct Found {
    /// Symbols and what else encloses names.
    pub frames: Vec<Frame>,
    /// Uses of names.
    pub uses: Vec<Used>,
    /// Names that are local.
    pub locals: Vec<Local>,
    /// Names with their types.
    pub bindings: Vec<Binding>,
}

/// A stretch of the text, by bytes; files are far shorter than the type allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    pub start: u32,
    /// The byte behind it.
    pub end: u32,
}

impl Place {
    /// What stands there.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl From<Range<usize>> for Place {
    fn from(range: Range<usize>) -> Self {
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }
}

/// A stretch of the text that encloses names.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its bytes.
    pub range: Place,
    /// Its first line without annotations, and its last, from 1.
    pub lines: (u32, u32),
    /// What it is.
    pub what: What,
    /// Where its name stands; empty if it has none.
    pub name: Place,
    /// Where the type stands to which it belongs.
    pub owner: Option<Place>,
    /// The pattern that found it; an earlier one knows better.
    pub pattern: u32,
}

/// What encloses names. The order is that of frames over the same bytes, from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A statement that brings in names.
    Import,
    /// A block whose contents belong to a type.
    Scope,
    /// A symbol.
    Symbol(SymbolKind),
    /// A function that is declared without its body.
    Prototype,
    /// A parameter that is a field as well.
    Promoted,
    /// A function without a name.
    Closure,
}

impl What {
    /// Whether it makes a symbol.
    pub fn is_symbol(self) -> bool {
        matches!(self, Self::Symbol(_) | Self::Prototype | Self::Promoted)
    }
}

/// A name that is used.
#[derive(Debug, Clone)]
pub struct Used {
    /// Where it stands.
    pub name: Place,
    /// Its line, from 1.
    pub line: u32,
    /// How it is used.
    pub how: Use,
    /// The pattern that found it; an earlier one knows better.
    pub pattern: u32,
}

/// A name that is local.
#[derive(Debug, Clone)]
pub struct Local {
    /// Where it stands.
    pub name: Place,
    /// What it is.
    pub binding: LocalKind,
}
