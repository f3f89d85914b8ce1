; Rust. The first pattern that names a place wins, so what is special comes first.

(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.class
(union_item name: (type_identifier) @name) @definition.class
(enum_item name: (type_identifier) @name) @definition.enum
(enum_variant name: (identifier) @name) @definition.variant
(trait_item name: (type_identifier) @name) @definition.interface
(type_item name: (type_identifier) @name) @definition.alias
(associated_type name: (type_identifier) @name) @definition.alias
(mod_item name: (identifier) @name body: (_)) @definition.module
(const_item name: (identifier) @name @binding.name type: (_) @binding.type) @definition.variable
(static_item name: (identifier) @name @binding.name type: (_) @binding.type) @definition.variable
(field_declaration name: (field_identifier) @name @binding.name type: (_) @binding.type) @definition.field
(macro_definition name: (identifier) @name) @definition.macro

(impl_item type: (_) @owner) @scope
(impl_item trait: (_) @reference.super)
(trait_item bounds: (trait_bounds (_) @reference.super))

(use_declaration) @import
(extern_crate_declaration) @import
(mod_item !body) @import

(closure_expression) @closure

(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (field_identifier) @reference.call))
(call_expression function: (scoped_identifier name: (identifier) @reference.call))
(generic_function function: (identifier) @reference.call)
(generic_function function: (field_expression field: (field_identifier) @reference.call))
(generic_function function: (scoped_identifier name: (identifier) @reference.call))
(macro_invocation macro: (identifier) @reference.call)
(macro_invocation macro: (scoped_identifier name: (identifier) @reference.call))
(struct_expression name: (_) @reference.call)
; Inside a macro there are only tokens, unless it wraps whole items.
(macro_invocation (token_tree) @embedded)
(macro_invocation (token_tree (token_tree) @embedded))
(token_tree (identifier) @reference.token)

(parameter pattern: (identifier) @parameter @binding.name type: (_) @binding.type)
(closure_parameters (identifier) @parameter)
(let_declaration pattern: (identifier) @local)
(type_parameter name: (type_identifier) @local.type)
(type_identifier) @reference.type

(scoped_identifier path: (identifier) @reference.path)
(scoped_identifier name: (identifier) @reference.read)
(identifier) @reference.read

; What other declarations say of types.
(let_declaration pattern: (identifier) @binding.name type: (_) @binding.type)
(let_declaration pattern: (identifier) @binding.name !type value: (_) @binding.type)
(function_item name: (identifier) @binding.name return_type: (_) @binding.type)
(function_signature_item name: (identifier) @binding.name return_type: (_) @binding.type)
