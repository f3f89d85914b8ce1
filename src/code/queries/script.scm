; What JavaScript and TypeScript have in common. The first pattern that names a place wins.

(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: [(property_identifier) (private_property_identifier)] @name) @definition.method
(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(variable_declarator name: (identifier) @name) @definition.variable
(variable_declarator
  name: (object_pattern (shorthand_property_identifier_pattern) @name)) @definition.variable
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: (class !name)) @definition.class
(export_statement "default" @name value: [(arrow_function) (function_expression !name)]) @definition.function
(export_statement "default" @name value: (class !name)) @definition.class
(pair
  key: (property_identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression) (generator_function)]) @definition.function

(import_statement) @import
(export_statement source: (string)) @import
(variable_declarator value: (call_expression function: (identifier) @require arguments: (arguments . (string)))) @import
(variable_declarator
  value: (member_expression
    object: (call_expression function: (identifier) @require arguments: (arguments . (string))))) @import
(call_expression function: (identifier) @require arguments: (arguments . (string))) @import
(call_expression function: (import) arguments: (arguments . (string))) @import

(arrow_function) @closure
(function_expression) @closure

(call_expression function: (identifier) @reference.call)
(call_expression function: (member_expression
  property: [(property_identifier) (private_property_identifier)] @reference.call))
(new_expression constructor: (identifier) @reference.call)
(new_expression constructor: (member_expression property: (property_identifier) @reference.call))
(decorator (identifier) @reference.call)
(decorator (member_expression property: (property_identifier) @reference.call))

(arrow_function parameter: (identifier) @parameter)
(catch_clause parameter: (identifier) @local)
(array_pattern (identifier) @local)
(shorthand_property_identifier_pattern) @local
(for_in_statement left: (identifier) @local)

(member_expression object: (identifier) @reference.path)

; What declarations say of types.
(variable_declarator
  name: (identifier) @binding.name
  value: [(new_expression) (call_expression) (await_expression)] @binding.type)
(assignment_expression
  left: (member_expression object: (this) property: (property_identifier) @binding.name)
  right: [(new_expression) (call_expression) (identifier)] @binding.type)
