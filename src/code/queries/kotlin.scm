; Kotlin. The first pattern that names a place wins, so what is special comes first.

(package_header (identifier) @name) @definition.module
(class_declaration "interface" (type_identifier) @name) @definition.interface
(class_declaration (type_identifier) @name (enum_class_body)) @definition.enum
(class_declaration (type_identifier) @name) @definition.class
(object_declaration (type_identifier) @name) @definition.class
(companion_object (type_identifier) @name) @definition.class
(type_alias (type_identifier) @name) @definition.alias
(enum_entry (simple_identifier) @name) @definition.variant
(function_declaration (simple_identifier) @name) @definition.function
; What reads and writes a property stands behind it, as if it were a thing of its own.
(class_body
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.variable
  . [(getter) (setter)] . [(getter) (setter)] @end)
(source_file
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.variable
  . [(getter) (setter)] . [(getter) (setter)] @end)
(class_body
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.variable
  . [(getter) (setter)] @end)
(source_file
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.variable
  . [(getter) (setter)] @end)
(property_declaration (variable_declaration (simple_identifier) @name)) @definition.variable
(class_parameter (binding_pattern_kind) . (simple_identifier) @name) @definition.field

(import_header) @import

(lambda_literal) @closure
(anonymous_function) @closure

(delegation_specifier (constructor_invocation (user_type) @reference.super))
(delegation_specifier (user_type) @reference.super)
(explicit_delegation (user_type) @reference.super)

(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression (navigation_suffix (simple_identifier) @reference.call)))
(annotation (constructor_invocation (user_type) @reference.type))
(constructor_invocation (user_type) @reference.call)
(callable_reference (simple_identifier) @reference.read .)

(type_parameter (type_identifier) @local.type)
(parameter . (simple_identifier) @parameter)
; What follows a type is a value that the parameter may have.
(class_parameter . (simple_identifier) @parameter)
(class_parameter (modifiers) . (simple_identifier) @parameter)
(class_parameter (binding_pattern_kind) . (simple_identifier) @parameter)
(lambda_parameters (variable_declaration (simple_identifier) @parameter))
(for_statement (variable_declaration (simple_identifier) @local))
(multi_variable_declaration (variable_declaration (simple_identifier) @local))

(user_type (type_identifier) @reference.path)
(navigation_expression . (simple_identifier) @reference.path)
(navigation_expression (navigation_suffix (simple_identifier) @reference.member))
(value_argument . (simple_identifier) @reference.read .)
