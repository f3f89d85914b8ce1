; What JavaScript says in its own nodes.

(class_declaration name: (identifier) @name) @definition.class
(class name: (identifier) @name) @definition.class
(field_definition
  property: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function) (function_expression)]) @definition.method
(field_definition property: [(property_identifier) (private_property_identifier)] @name) @definition.field

(formal_parameters (identifier) @parameter)
(formal_parameters (object_pattern (shorthand_property_identifier_pattern) @parameter))
(formal_parameters (object_pattern (object_assignment_pattern (shorthand_property_identifier_pattern) @parameter)))
(formal_parameters (rest_pattern (identifier) @parameter))
(formal_parameters (assignment_pattern left: (identifier) @parameter))

(class_heritage (identifier) @reference.super)
(class_heritage (member_expression property: (property_identifier) @reference.super))
