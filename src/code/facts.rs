//! What one file says about itself: symbols, references, imports and the words of its units. Made
//! from its bytes alone, so it can be kept by blob id. Never knows a path, a commit or another file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Everything the index keeps of one blob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Definitions, in the order of their start; a symbol stands behind the one that holds it.
    pub symbols: Vec<Symbol>,
    /// Uses of names, in the order of their lines.
    pub references: Vec<Reference>,
    /// What the file brings in from other files.
    pub imports: Vec<Import>,
    /// The units of the file: first what stands outside every function, then one for each function
    /// or method. Never empty for a file that was read.
    pub units: Vec<Unit>,
    /// The words of each unit, each once for each field.
    pub terms: Vec<Term>,
    /// Number of lines.
    pub lines: u32,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// Its name as written, without what holds it: `parse`.
    pub name: Box<str>,
    /// What it is.
    pub kind: SymbolKind,
    /// First line, from 1; attributes and documentation before it do not count.
    pub line: u32,
    /// Last line.
    pub end_line: u32,
    /// The symbol that holds it, by its place in [`Facts::symbols`].
    pub parent: Option<u32>,
    /// The type that it belongs to where that is written elsewhere than around it: `Parser` of a
    /// method in `impl Parser` or of `func (p *Parser) parse()`.
    pub owner: Option<Box<str>>,
}

/// What a symbol is, in words that fit all languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SymbolKind {
    /// A function outside a type.
    Function,
    /// A function of a type.
    Method,
    /// A class, structure, record, object or union.
    Class,
    /// A trait, interface or protocol.
    Interface,
    /// An enumeration.
    Enum,
    /// One value of an enumeration.
    Variant,
    /// A name for another type.
    Alias,
    /// A module, namespace or package written in the file.
    Module,
    /// A constant or variable outside a function.
    Variable,
    /// A field or property of a type.
    Field,
    /// A macro.
    Macro,
}

impl SymbolKind {
    /// Whether it has a body that runs: a unit of its own.
    pub fn is_callable(self) -> bool {
        matches!(self, Self::Function | Self::Method | Self::Macro)
    }

    /// Whether it is a type.
    pub fn is_type(self) -> bool {
        matches!(self, Self::Class | Self::Interface | Self::Enum | Self::Alias)
    }
}

/// A use of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The name, without what stands before it: `parse` of `Parser::parse`.
    pub name: Box<str>,
    /// How it is used.
    pub kind: ReferenceKind,
    /// Line, from 1.
    pub line: u32,
    /// The innermost symbol around it, by its place in [`Facts::symbols`].
    pub within: Option<u32>,
    /// What stands before the name, its last part: `Parser` of `Parser::parse`, `self` of
    /// `self.parse()`.
    pub receiver: Option<Box<str>>,
}

/// How a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReferenceKind {
    /// Called, or made: `parse()`, `new Parser()`, a macro.
    Call,
    /// Named as a type.
    Type,
    /// Named as what the symbol around it extends or implements. Where that is written apart from the
    /// type (`impl Trait for Type`), `receiver` is the type, and `within` its symbol if it is here.
    Super,
    /// Read or handed on without a call.
    Read,
    /// Named as the type of a variable, whose name is the receiver, or without a receiver as the type
    /// of the symbol around: of a field, or of what a function returns. `make()` means the type of
    /// what `make` returns.
    Binding,
}

/// One name, or everything, that a file brings in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Where from, as written: `../net`, `os.path`, `crate::text`, `fmt`, `<stdio.h>` without its marks.
    /// `mod net;` of Rust is `self::net`.
    pub module: Box<str>,
    /// The name there; `None`: the module itself, or all of it.
    /// `default` is what a module of JavaScript exports by default.
    pub name: Option<Box<str>>,
    /// The name here, where it differs.
    pub alias: Option<Box<str>>,
    /// Line, from 1.
    pub line: u32,
}

/// A function, or what stands outside of all functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The function, by its place in [`Facts::symbols`]; `None` for the rest of the file.
    pub symbol: Option<u32>,
    /// Words in it, repetitions included.
    pub words: u32,
}

/// A word of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The word, in small letters.
    pub text: Arc<str>,
    /// Which kind of word.
    pub field: Field,
    /// The unit, by its place in [`Facts::units`].
    pub unit: u32,
    /// How often it stands there.
    pub count: u32,
}

/// Kinds of words that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Field {
    /// A part of a name, or a plain word, anywhere: `get`, `user` of `getUser`.
    Part,
    /// A whole name of several parts: `getuser` of `getUser`.
    Whole,
    /// A part of the name of a definition.
    Defined,
}
