//! The name in a declaration of C or C++, which stands inside of what says its type: `name` of
//! `*name[4]` and of `(*name)(int)`. Called by the reading of a tree. Never follows one without end.

use tree_sitter::Node;

use super::found::What;
use super::kind::{Kinds, Mark};
use crate::code::facts::SymbolKind;

/// Deeper nesting is no declaration that people write.
const MAX_NESTING: usize = 10;

/// What a declaration declares.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'t> {
    /// What it is.
    pub what: What,
    /// Its name.
    pub name: Node<'t>,
}

/// What a declarator makes of a declaration that is taken for `what`; nothing when that is not said
/// here.
pub fn declared<'t>(declarator: Node<'t>, what: What, kinds: &Kinds) -> Option<Declared<'t>> {
    let inside = inside(declarator, kinds)?;
    let what = match what {
        // What a macro makes of a definition may look like one of something else.
        What::Symbol(SymbolKind::Function) if inside.is_function => what,
        What::Symbol(SymbolKind::Function) => return None,
        // What is defined apart from its type was declared in it.
        _ if inside.is_qualified => return None,
        What::Symbol(SymbolKind::Variable | SymbolKind::Field) if inside.is_function => What::Prototype,
        _ => what,
    };
    Some(Declared {
        what,
        name: inside.name,
    })
}

/// The name of a parameter.
pub fn named<'t>(declarator: Node<'t>, kinds: &Kinds) -> Option<Node<'t>> {
    Some(inside(declarator, kinds)?.name)
}

/// What stands inside of a declarator.
struct Inside<'t> {
    name: Node<'t>,
    /// Whether it is a function, not a pointer to one.
    is_function: bool,
    /// Whether a scope stands before the name.
    is_qualified: bool,
}

fn inside<'t>(declarator: Node<'t>, kinds: &Kinds) -> Option<Inside<'t>> {
    let mut inside = Inside {
        name: declarator,
        is_function: false,
        is_qualified: false,
    };
    for _ in 0..MAX_NESTING {
        let node = inside.name;
        let next = || kinds.part(node, "declarator").or_else(|| node.named_child(0));
        inside.name = match kinds.mark(node) {
            Mark::Name => return Some(inside),
            Mark::Qualified => {
                inside.is_qualified = true;
                kinds.part(node, "name")?
            }
            Mark::Around => next()?,
            Mark::Function => {
                inside.is_function = true;
                next()?
            }
            Mark::Parentheses => {
                let next = next()?;
                inside.is_function &= kinds.mark(next) == Mark::Name;
                next
            }
            Mark::Other => return None,
        };
    }
    None
}
