; C#. The first pattern that names a place wins, so what is special comes first.

(namespace_declaration name: (_) @name) @definition.module
(file_scoped_namespace_declaration name: (_) @name) @definition.module
(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(struct_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(enum_member_declaration name: (identifier) @name) @definition.variant
(delegate_declaration name: (identifier) @name) @definition.alias
(method_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(local_function_statement name: (identifier) @name) @definition.function
(property_declaration name: (identifier) @name) @definition.field
(event_declaration name: (identifier) @name) @definition.field
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.field
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.field
(record_declaration (parameter_list (parameter name: (identifier) @name) @definition.field))

(using_directive) @import

(base_list [(identifier) (qualified_name) (generic_name)] @reference.super)
(base_list (primary_constructor_base_type type: (_) @reference.super))

(invocation_expression function: (identifier) @reference.call)
(invocation_expression function: (generic_name . (identifier) @reference.call))
(invocation_expression function: (member_access_expression name: (identifier) @reference.call))
(invocation_expression function: (member_access_expression name: (generic_name . (identifier) @reference.call)))
(invocation_expression function: (member_binding_expression name: (identifier) @reference.call))
(invocation_expression
  function: (conditional_access_expression (member_binding_expression name: (identifier) @reference.call)))
(object_creation_expression type: (_) @reference.call)

(attribute name: (_) @reference.type)
(parameter type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(method_declaration returns: [(identifier) (qualified_name) (generic_name)] @reference.type)
(property_declaration type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(event_declaration type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(variable_declaration type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(delegate_declaration type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(type_argument_list [(identifier) (qualified_name) (generic_name)] @reference.type)
(nullable_type type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(array_type type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(cast_expression type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(as_expression right: [(identifier) (qualified_name) (generic_name)] @reference.type)
(is_expression right: [(identifier) (qualified_name) (generic_name)] @reference.type)
(typeof_expression type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(declaration_pattern type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(constant_pattern (identifier) @reference.path)
(catch_declaration type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(foreach_statement type: [(identifier) (qualified_name) (generic_name)] @reference.type)
(type_parameter_constraint type: [(identifier) (qualified_name) (generic_name)] @reference.type)

(type_parameter name: (identifier) @local.type)
(local_declaration_statement (variable_declaration (variable_declarator name: (identifier) @local)))
(foreach_statement left: (identifier) @local)
(declaration_pattern name: (identifier) @local)
(parameter name: (identifier) @parameter)
(catch_declaration name: (identifier) @local)

(member_access_expression expression: (identifier) @reference.path)
(member_access_expression name: (identifier) @reference.member)
(argument (identifier) @reference.read)
