//! A query of a language, compiled once, with the meaning of each of its captures. Called by the
//! reading of a tree. Never fails: a query that does not fit its grammar gives no symbols.

use tree_sitter::Query;

use super::kind::Kinds;
use crate::code::facts::SymbolKind;

/// A compiled query.
#[derive(Debug)]
pub struct Compiled {
    /// Its grammar.
    pub grammar: tree_sitter::Language,
    /// The query.
    pub query: Query,
    /// What each capture means, by its index.
    pub roles: Vec<Role>,
    /// What its kinds of nodes mean.
    pub kinds: Kinds,
}

/// What a capture means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The extent of a symbol.
    Definition(SymbolKind),
    /// The extent of a function's declaration without its body.
    Prototype,
    /// The extent of a parameter of a constructor that is a field as well.
    Promoted,
    /// What a definition reaches to, where that stands behind it.
    End,
    /// The name of what the same match defines.
    Name,
    /// What stands around that name in C.
    Declarator,
    /// What stands around the name of a parameter in C.
    ParameterDeclarator,
    /// The type to which a definition, or all in a scope, belongs.
    Owner,
    /// A block whose contents belong to a type that is not defined there.
    Scope,
    /// A function without a name: what is declared in it is local.
    Closure,
    /// A statement that brings in names.
    Import,
    /// The function of a call that is an import if this function is `require`.
    Require,
    /// A name that means something only inside of the symbol around it.
    Local(LocalKind),
    /// A name whose type the same match captures.
    Variable,
    /// That type, or the value that is given to the name.
    Typed,
    /// Only there to be compared.
    Ignored,
    /// The tokens of a macro, which may be whole items.
    Embedded,
    /// A name that is used.
    Use(Use),
}

/// What a local name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalKind {
    /// A variable.
    Variable,
    /// A parameter of a function.
    Parameter,
    /// A parameter of a generic type or function.
    Type,
}

/// How a captured name is used, before it is known what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Called or made.
    Call,
    /// Named as a type.
    Type,
    /// Extended or implemented.
    Super,
    /// Read, if it turns out to be no local name.
    Read,
    /// Read as a member of something; worth keeping when that is a type or a module.
    Member,
    /// What stands before a member: a type if it is written like one.
    Path,
    /// A name where only tokens are known: a call before parentheses, else a type if written like one.
    Token,
    /// A plain name where a call needs no parentheses.
    Bare,
    /// An element of JSX: a component unless written small.
    Element,
}

impl Compiled {
    /// Compiles a query. What its text says about the grammar has to be true, or it is an error.
    pub fn of(grammar: &tree_sitter::Language, source: &str) -> Result<Self, String> {
        let query = Query::new(grammar, source).map_err(|error| error.to_string())?;
        let roles = query.capture_names().iter().map(|name| role(name));
        let roles = roles.collect::<Result<_, _>>()?;
        Ok(Self {
            grammar: grammar.clone(),
            query,
            roles,
            kinds: Kinds::of(grammar),
        })
    }
}

fn role(name: &str) -> Result<Role, String> {
    Ok(match name {
        "end" => Role::End,
        "name" => Role::Name,
        "declarator" => Role::Declarator,
        "parameter.declarator" => Role::ParameterDeclarator,
        "owner" => Role::Owner,
        "scope" => Role::Scope,
        "closure" => Role::Closure,
        "import" => Role::Import,
        "require" => Role::Require,
        "binding.name" => Role::Variable,
        "binding.type" => Role::Typed,
        "embedded" => Role::Embedded,
        "local" => Role::Local(LocalKind::Variable),
        "local.type" => Role::Local(LocalKind::Type),
        "parameter" => Role::Local(LocalKind::Parameter),
        "definition.function" => Role::Definition(SymbolKind::Function),
        "definition.promoted" => Role::Promoted,
        "definition.prototype" => Role::Prototype,
        "definition.method" => Role::Definition(SymbolKind::Method),
        "definition.class" => Role::Definition(SymbolKind::Class),
        "definition.interface" => Role::Definition(SymbolKind::Interface),
        "definition.enum" => Role::Definition(SymbolKind::Enum),
        "definition.variant" => Role::Definition(SymbolKind::Variant),
        "definition.alias" => Role::Definition(SymbolKind::Alias),
        "definition.module" => Role::Definition(SymbolKind::Module),
        "definition.variable" => Role::Definition(SymbolKind::Variable),
        "definition.field" => Role::Definition(SymbolKind::Field),
        "definition.macro" => Role::Definition(SymbolKind::Macro),
        "reference.call" => Role::Use(Use::Call),
        "reference.type" => Role::Use(Use::Type),
        "reference.super" => Role::Use(Use::Super),
        "reference.read" => Role::Use(Use::Read),
        "reference.member" => Role::Use(Use::Member),
        "reference.path" => Role::Use(Use::Path),
        "reference.token" => Role::Use(Use::Token),
        "reference.bare" => Role::Use(Use::Bare),
        "reference.element" => Role::Use(Use::Element),
        _ if name.starts_with('_') => Role::Ignored,
        _ => return Err(format!("capture without a meaning: @{name}")),
    })
}
