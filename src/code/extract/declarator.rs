//! The name in a declaration of C or C++, which stands inside of what says its type: `name` of
//! `*name[4]` and of `(*name)(int)`. Called by the reading of a tree. Never follows one without end.

use tree_sitter::Node;

use super::kind::{Kinds, Mark};

/// Deeper nesting is no declaration that people write.
const MAX_NESTING: usize = 10;

/// What a declarator declares.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'t> {
    /// Its name.
    pub name: Node<'t>,
    /// Whether it is a function, not a pointer to one.
    pub is_function: bool,
    /// Whether a scope stands before the name.
    pub is_qualified: bool,
}

/// Goes inside to the name.
pub fn declared<'t>(declarator: Node<'t>, kinds: &Kinds) -> Option<Declared<'t>> {
    let mut declared = Declared {
        name: declarator,
        is_function: false,
        is_qualified: false,
    };
    for _ in 0..MAX_NESTING {
        let node = declared.name;
        let inside = || kinds.part(node, "declarator").or_else(|| node.named_child(0));
        declared.name = match kinds.mark(node) {
            Mark::Name => return Some(declared),
            Mark::Qualified => {
                declared.is_qualified = true;
                kinds.part(node, "name")?
            }
            Mark::Around => inside()?,
            Mark::Function => {
                declared.is_function = true;
                inside()?
            }
            Mark::Parentheses => {
                let inside = inside()?;
                declared.is_function &= kinds.mark(inside) == Mark::Name;
                inside
            }
            Mark::Other => return None,
        };
    }
    None
}
