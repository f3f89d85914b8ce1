; Go. The first pattern that names a place wins, so what is special comes first.

(package_clause (package_identifier) @name) @definition.module
(function_declaration name: (identifier) @name) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @owner))
  name: (field_identifier) @name) @definition.method
(type_spec name: (type_identifier) @name type: (struct_type)) @definition.class
(type_spec name: (type_identifier) @name type: (interface_type)) @definition.interface
(type_spec name: (type_identifier) @name) @definition.alias
(type_alias name: (type_identifier) @name) @definition.alias
(method_elem name: (field_identifier) @name) @definition.method
(const_spec (identifier) @name) @definition.variable
(var_spec (identifier) @name) @definition.variable
(field_declaration name: (field_identifier) @name @binding.name type: (_) @binding.type) @definition.field

(import_spec) @import
(func_literal) @closure

; What a structure or an interface takes in whole.
(field_declaration !name type: (_) @reference.super)
(interface_type (type_elem . (type_identifier) @reference.super .))
(interface_type (type_elem . (qualified_type name: (type_identifier) @reference.super) .))

(call_expression function: (identifier) @reference.call)
(call_expression function: (selector_expression field: (field_identifier) @reference.call))
(composite_literal type: (type_identifier) @reference.call)
(composite_literal type: (qualified_type name: (type_identifier) @reference.call))
(composite_literal type: (generic_type type: (type_identifier) @reference.call))

(type_parameter_declaration name: (identifier) @local.type)
(method_declaration
  receiver: (parameter_list (parameter_declaration
    type: (generic_type type_arguments: (type_arguments (type_elem (type_identifier) @local.type))))))
(method_declaration
  receiver: (parameter_list (parameter_declaration
    type: (pointer_type (generic_type type_arguments: (type_arguments (type_elem (type_identifier) @local.type)))))))
(type_identifier) @reference.type

(short_var_declaration left: (expression_list (identifier) @local))
(range_clause left: (expression_list (identifier) @local))
(parameter_declaration name: (identifier) @parameter @binding.name type: (_) @binding.type)
(variadic_parameter_declaration name: (identifier) @parameter)
(type_switch_statement alias: (expression_list (identifier) @local))

(selector_expression operand: (identifier) field: (field_identifier) @reference.member)
(argument_list (identifier) @reference.read)
(keyed_element value: (literal_element (identifier) @reference.read))
(literal_value (literal_element (identifier) @reference.read))
(expression_list (identifier) @reference.read)
(binary_expression (identifier) @reference.read)
(index_expression operand: (identifier) @reference.read)
(range_clause right: (identifier) @reference.read)

; What other declarations say of types.
(short_var_declaration
  left: (expression_list . (identifier) @binding.name)
  right: (expression_list . (_) @binding.type))
(var_spec name: (identifier) @binding.name type: (_) @binding.type)
(function_declaration name: (identifier) @binding.name result: (_) @binding.type)
(method_declaration name: (field_identifier) @binding.name result: (_) @binding.type)
(method_elem name: (field_identifier) @binding.name result: (_) @binding.type)
