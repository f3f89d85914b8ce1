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
(shorthand_property_identifier_pattern) @local
(for_in_statement left: (identifier) @local)

(member_expression object: (identifier) @reference.path)
(arguments (identifier) @reference.read)
(pair value: (identifier) @reference.read)
(shorthand_property_identifier) @reference.read
(return_statement (identifier) @reference.read)
(variable_declarator value: (identifier) @reference.read)
(assignment_expression right: (identifier) @reference.read)
(array (identifier) @reference.read)
(spread_element (identifier) @reference.read)
(binary_expression (identifier) @reference.read)
(template_substitution (identifier) @reference.read)
(export_statement value: (identifier) @reference.read)

; What declarations say of types.
(variable_declarator
  name: (identifier) @binding.name
  value: [(new_expression) (call_expression) (await_expression)] @binding.type)
(assignment_expression
  left: (member_expression object: (this) property: (property_identifier) @binding.name)
  right: [(new_expression) (call_expression) (identifier)] @binding.type)
