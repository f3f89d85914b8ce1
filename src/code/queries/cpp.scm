; What C++ adds to C.

(class_specifier name: (type_identifier) @name body: (_)) @definition.class
(namespace_definition name: (_) @name) @definition.module
(alias_declaration name: (type_identifier) @name) @definition.alias
(concept_definition name: (identifier) @name) @definition.interface

(using_declaration) @import
(lambda_expression) @closure

(base_class_clause [(type_identifier) (qualified_identifier) (template_type)] @reference.super)

(call_expression function: (qualified_identifier) @reference.call)
(call_expression function: (template_function name: (identifier) @reference.call))
(call_expression function: (field_expression field: (template_method name: (field_identifier) @reference.call)))
(new_expression type: (_) @reference.call)

(type_parameter_declaration (type_identifier) @local.type)
(optional_type_parameter_declaration name: (type_identifier) @local.type)
(variadic_type_parameter_declaration (type_identifier) @local.type)
(optional_parameter_declaration declarator: (_) @parameter.declarator)
(for_range_loop declarator: (identifier) @local)
(for_range_loop declarator: (reference_declarator (identifier) @local))
(qualified_identifier scope: (namespace_identifier) @reference.path)
(qualified_identifier name: (identifier) @reference.read)
