; Kotlin. The first pattern that names a place wins, so what is special comes first.

(package_header (qualified_identifier) @name) @definition.module
(class_declaration "interface" name: (identifier) @name) @definition.interface
(class_declaration name: (identifier) @name (enum_class_body)) @definition.enum
(class_declaration name: (identifier) @name) @definition.class
(object_declaration name: (identifier) @name) @definition.class
(companion_object name: (identifier) @name) @definition.class
(type_alias type: (identifier) @name) @definition.alias
(enum_entry (identifier) @name) @definition.variant
(function_declaration name: (identifier) @name) @definition.function
(property_declaration (variable_declaration (identifier) @name)) @definition.variable
(class_parameter ["val" "var"] (identifier) @name) @definition.field

(import) @import

(lambda_literal) @closure
(anonymous_function) @closure

(delegation_specifier (constructor_invocation (user_type) @reference.super))
(delegation_specifier (user_type) @reference.super)
(explicit_delegation (user_type) @reference.super)

(call_expression . (identifier) @reference.call)
(call_expression . (navigation_expression (identifier) @reference.call .))
(annotation (constructor_invocation (user_type) @reference.type))
(constructor_invocation (user_type) @reference.call)
(callable_reference (identifier) @reference.read .)

(type_parameter (identifier) @local.type)
(parameter (identifier) @parameter)
(class_parameter (identifier) @parameter)
(lambda_parameters (variable_declaration (identifier) @parameter))
(for_statement (variable_declaration (identifier) @local))

(user_type (identifier) @reference.path)
(navigation_expression . (identifier) @reference.path)
(navigation_expression (identifier) @reference.member .)
(value_argument . (identifier) @reference.read .)
