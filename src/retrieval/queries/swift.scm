; Swift. The first pattern that names a place wins, so what is special comes first.

(class_declaration declaration_kind: "extension" name: (_) @owner) @scope
(class_declaration declaration_kind: "enum" name: (type_identifier) @name) @definition.enum
(class_declaration declaration_kind: ["class" "struct" "actor"] name: (type_identifier) @name) @definition.class
(protocol_declaration name: (type_identifier) @name) @definition.interface
(typealias_declaration name: (type_identifier) @name) @definition.alias
(associatedtype_declaration name: (type_identifier) @name) @definition.alias
(enum_entry name: (simple_identifier) @name) @definition.variant
(function_declaration name: (simple_identifier) @name) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.method
(init_declaration name: "init" @name) @definition.method
(property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @definition.variable
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @definition.field

(import_declaration) @import

(lambda_literal) @closure

(inheritance_specifier inherits_from: (user_type) @reference.super)

(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @reference.call)))
(constructor_expression constructed_type: (user_type) @reference.call)

(type_parameter (type_identifier) @local.type)
(user_type (type_identifier) @reference.type)

(parameter name: (simple_identifier) @parameter)
(lambda_parameter name: (simple_identifier) @parameter)
(for_statement item: (pattern bound_identifier: (simple_identifier) @local))

(navigation_expression target: (simple_identifier) @reference.path)
(navigation_suffix suffix: (simple_identifier) @reference.member)
(value_argument value: (simple_identifier) @reference.read)
