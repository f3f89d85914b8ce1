; What TypeScript adds to the common part.

(class_declaration name: (type_identifier) @name) @definition.class
(class name: (type_identifier) @name) @definition.class
(abstract_class_declaration name: (type_identifier) @name) @definition.class
(interface_declaration name: (type_identifier) @name) @definition.interface
(type_alias_declaration name: (type_identifier) @name) @definition.alias
(enum_declaration name: (identifier) @name) @definition.enum
(enum_body name: (property_identifier) @name @definition.variant)
(enum_assignment name: (property_identifier) @name) @definition.variant
(internal_module name: (_) @name) @definition.module
(module name: (_) @name) @definition.module
(function_signature name: (identifier) @name) @definition.function
(method_signature name: [(property_identifier) (private_property_identifier)] @name) @definition.method
(abstract_method_signature name: (property_identifier) @name) @definition.method
(public_field_definition
  name: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function) (function_expression)]) @definition.method
(public_field_definition name: [(property_identifier) (private_property_identifier)] @name) @definition.field
(required_parameter (accessibility_modifier) pattern: (identifier) @name) @definition.promoted
(optional_parameter (accessibility_modifier) pattern: (identifier) @name) @definition.promoted
(property_signature name: (property_identifier) @name) @definition.field

(extends_clause value: (identifier) @reference.super)
(extends_clause value: (member_expression property: (property_identifier) @reference.super))
(implements_clause (_) @reference.super)
(extends_type_clause type: (_) @reference.super)

(required_parameter pattern: (identifier) @parameter)
(optional_parameter pattern: (identifier) @parameter)
(required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @parameter))
(required_parameter
  pattern: (object_pattern (object_assignment_pattern (shorthand_property_identifier_pattern) @parameter)))
(required_parameter pattern: (rest_pattern (identifier) @parameter))
(type_parameter name: (type_identifier) @local.type)
(infer_type (type_identifier) @local.type)
(mapped_type_clause name: (type_identifier) @local.type)
(type_identifier) @reference.type
