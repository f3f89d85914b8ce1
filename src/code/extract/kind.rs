//! What kinds of nodes mean to extraction, looked up once for each grammar: comparing numbers is far
//! cheaper than comparing names at every declaration of a repository. Made with the query of a
//! language, asked by the reading of a tree. Never knows a language.

use std::num::NonZeroU16;

use tree_sitter::{Language, Node};

/// Nodes before a definition that are no part of its first line.
const ANNOTATIONS: &[&str] = &[
    "annotation",
    "attribute",
    "attribute_item",
    "attribute_list",
    "comment",
    "decorator",
    "marker_annotation",
];
/// Nodes around a value that do not change its type, or only unwrap it.
const SHELLS: &[&str] = &[
    "await",
    "await_expression",
    "non_null_expression",
    "parenthesized_expression",
    "reference_expression",
    "satisfies_expression",
    "try_expression",
    "unary_expression",
];

/// What a node means where a definition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// It is no part of the first line.
    Annotation,
    /// It holds annotations, most often in front.
    Modifiers,
    /// The first line.
    Other,
}

/// What a node says of the type of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// What stands in it says it: `(a)`, `await a`.
    Inner,
    /// The last node in it says it: `&mut a`.
    Last,
    /// The call of its function: `make()`.
    Call,
    /// The call of its name: `a.make()` of Java.
    Method,
    /// The type that it makes, by the field with this name.
    Makes(&'static str),
    /// The type behind `as`.
    Cast,
    /// It is the type.
    Type,
    /// Nothing.
    Nothing,
}

/// What a node is among the marks that C puts around the name of what it declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The name, or an operator.
    Name,
    /// A name with the scope that it belongs to.
    Qualified,
    /// A pointer, an array, a reference, or an initial value.
    Around,
    /// Parentheses, most often around a pointer to a function.
    Parentheses,
    /// The parameters of a function.
    Function,
    /// Something else.
    Other,
}

/// The kinds of a grammar.
#[derive(Debug)]
pub struct Kinds {
    heads: Vec<Head>,
    says: Vec<Says>,
    marks: Vec<Mark>,
    fields: Vec<(&'static str, Option<NonZeroU16>)>,
}

impl Kinds {
    /// Looks up everything.
    pub fn of(grammar: &Language) -> Self {
        let kinds = 0..grammar.node_kind_count() as u16;
        let name = |kind| grammar.node_kind_for_id(kind).unwrap_or_default();
        let fields = [
            "operand",
            "value",
            "function",
            "name",
            "constructor",
            "type",
            "declarator",
        ];
        Self {
            heads: kinds.clone().map(|kind| head(name(kind))).collect(),
            says: kinds.clone().map(|kind| says(name(kind))).collect(),
            marks: kinds.map(|kind| mark(name(kind))).collect(),
            fields: fields.map(|field| (field, grammar.field_id_for_name(field))).into(),
        }
    }

    /// What a node means where a definition begins.
    pub fn head(&self, node: Node<'_>) -> Head {
        // The kind of a node that stands for an error is none of the grammar.
        self.heads
            .get(usize::from(node.kind_id()))
            .copied()
            .unwrap_or(Head::Other)
    }

    /// What a node says of the type of a name.
    pub fn says(&self, node: Node<'_>) -> Says {
        self.says
            .get(usize::from(node.kind_id()))
            .copied()
            .unwrap_or(Says::Nothing)
    }

    /// What a node is around the name of a declaration.
    pub fn mark(&self, node: Node<'_>) -> Mark {
        self.marks
            .get(usize::from(node.kind_id()))
            .copied()
            .unwrap_or(Mark::Other)
    }

    /// The child of a node in one of the fields above.
    pub fn part<'t>(&self, node: Node<'t>, field: &str) -> Option<Node<'t>> {
        let (_, id) = self.fields.iter().find(|(name, _)| *name == field)?;
        node.child_by_field_id((*id)?.get())
    }
}

fn head(kind: &str) -> Head {
    match kind {
        "modifiers" => Head::Modifiers,
        _ if ANNOTATIONS.contains(&kind) => Head::Annotation,
        _ => Head::Other,
    }
}

fn says(kind: &str) -> Says {
    match kind {
        "reference_expression" => Says::Last,
        _ if SHELLS.contains(&kind) => Says::Inner,
        "call_expression" | "call" => Says::Call,
        "method_invocation" => Says::Method,
        "new_expression" => Says::Makes("constructor"),
        "object_creation_expression" | "composite_literal" => Says::Makes("type"),
        "struct_expression" => Says::Makes("name"),
        "as_expression" => Says::Cast,
        _ if kind.ends_with("expression") || kind.contains("literal") || kind.contains("string") => Says::Nothing,
        "identifier" | "type_identifier" | "type" | "name" | "parameter_list" | "union" => Says::Type,
        _ if kind.contains("type") => Says::Type,
        _ => Says::Nothing,
    }
}

fn mark(kind: &str) -> Mark {
    match kind {
        "identifier" | "field_identifier" | "type_identifier" | "operator_name" | "destructor_name" => Mark::Name,
        "qualified_identifier" => Mark::Qualified,
        "pointer_declarator"
        | "array_declarator"
        | "reference_declarator"
        | "init_declarator"
        | "attributed_declarator" => Mark::Around,
        "parenthesized_declarator" => Mark::Parentheses,
        "function_declarator" => Mark::Function,
        _ => Mark::Other,
    }
}
