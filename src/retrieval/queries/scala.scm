; Scala. The first pattern that names a place wins, so what is special comes first.

(package_clause name: (package_identifier) @name) @definition.module
(class_definition name: (identifier) @name) @definition.class
(object_definition name: (identifier) @name) @definition.class
(package_object name: (identifier) @name) @definition.class
(trait_definition name: (identifier) @name) @definition.interface
(enum_definition name: (identifier) @name) @definition.enum
(simple_enum_case name: (identifier) @name) @definition.variant
(full_enum_case name: (identifier) @name) @definition.variant
(type_definition name: (type_identifier) @name) @definition.alias
(function_definition name: [(identifier) (operator_identifier)] @name) @definition.function
(function_declaration name: [(identifier) (operator_identifier)] @name) @definition.function
(val_definition pattern: (identifier) @name) @definition.variable
(var_definition pattern: (identifier) @name) @definition.variable
(val_declaration name: (identifier) @name) @definition.variable
(var_declaration name: (identifier) @name) @definition.variable
(given_definition name: (identifier) @name) @definition.class
(class_parameter name: (identifier) @name) @definition.field
(extension_definition parameters: (parameters (parameter type: (_) @owner))) @scope

(import_declaration) @import

(lambda_expression) @closure

(extends_clause
  [(type_identifier) (generic_type) (stable_type_identifier) (projected_type) (annotated_type)] @reference.super)

(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (identifier) @reference.call))
(generic_function function: (identifier) @reference.call)
(generic_function function: (field_expression field: (identifier) @reference.call))
(instance_expression . (type_identifier) @reference.call)
(instance_expression . (generic_type type: (type_identifier) @reference.call))
(infix_expression operator: (identifier) @reference.call)

(type_parameters (identifier) @local.type)
(covariant_type_parameter name: (identifier) @local.type)
(contravariant_type_parameter name: (identifier) @local.type)
(type_identifier) @reference.type

(parameter name: (identifier) @parameter)
(binding name: (identifier) @parameter)
(lambda_expression parameters: (identifier) @parameter)
(capture_pattern name: (identifier) @local)

(case_class_pattern type: (type_identifier) @reference.type)
(field_expression value: (identifier) @reference.path)
(field_expression field: (identifier) @reference.member)
(arguments (identifier) @reference.read)
