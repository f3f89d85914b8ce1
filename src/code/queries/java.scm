; Java. The first pattern that names a place wins, so what is special comes first.

(package_declaration (_) @name) @definition.module
(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(annotation_type_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(enum_constant name: (identifier) @name) @definition.variant
(method_declaration type: (_) @binding.type name: (identifier) @name @binding.name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(compact_constructor_declaration name: (identifier) @name) @definition.method
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(field_declaration
  type: (_) @binding.type
  declarator: (variable_declarator name: (identifier) @name @binding.name)) @definition.field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(record_declaration parameters: (formal_parameters (formal_parameter name: (identifier) @name) @definition.field))

(import_declaration) @import

(superclass (_) @reference.super)
(super_interfaces (type_list (_) @reference.super))
(extends_interfaces (type_list (_) @reference.super))

(method_invocation name: (identifier) @reference.call)
(object_creation_expression type: (_) @reference.call)
(method_reference (identifier) @reference.read .)
(marker_annotation name: (identifier) @reference.type)
(annotation name: (identifier) @reference.type)

(type_parameter (type_identifier) @local.type)
(type_identifier) @reference.type

(local_variable_declaration
  type: (_) @binding.type
  declarator: (variable_declarator name: (identifier) @local @binding.name))
(formal_parameter type: (_) @binding.type name: (identifier) @parameter @binding.name)
(enhanced_for_statement type: (_) @binding.type name: (identifier) @local @binding.name)
(catch_formal_parameter name: (identifier) @local)
(resource type: (_) @binding.type name: (identifier) @local @binding.name)
(lambda_expression parameters: (identifier) @parameter)
(inferred_parameters (identifier) @parameter)

(method_invocation object: (identifier) @reference.path)
(field_access object: (identifier) @reference.path)
(field_access field: (identifier) @reference.member)
(argument_list (identifier) @reference.read)

; What else says something of types.
((local_variable_declaration
  type: (type_identifier) @_type
  declarator: (variable_declarator name: (identifier) @binding.name value: (_) @binding.type))
  (#eq? @_type "var"))
(instanceof_expression right: (_) @binding.type name: (identifier) @binding.name)
