; PHP. The first pattern that names a place wins, so what is special comes first.

(namespace_definition name: (_) @name) @definition.module
(class_declaration name: (name) @name) @definition.class
(interface_declaration name: (name) @name) @definition.interface
(trait_declaration name: (name) @name) @definition.interface
(enum_declaration name: (name) @name) @definition.enum
(enum_case name: (name) @name) @definition.variant
(function_definition name: (name) @name) @definition.function
(method_declaration name: (name) @name) @definition.method
(property_declaration (property_element name: (variable_name (name) @name))) @definition.field
(property_promotion_parameter name: (variable_name (name) @name)) @definition.promoted
(const_declaration (const_element . (name) @name)) @definition.variable

(namespace_use_declaration) @import
(require_expression (string)) @import
(require_once_expression (string)) @import
(include_expression (string)) @import
(include_once_expression (string)) @import
(require_once_expression (binary_expression right: (string))) @import
(require_expression (binary_expression right: (string))) @import

(anonymous_function) @closure
(arrow_function) @closure

(base_clause (_) @reference.super)
(class_interface_clause (_) @reference.super)
(use_declaration [(name) (qualified_name)] @reference.super)

(function_call_expression function: [(name) (qualified_name)] @reference.call)
(member_call_expression name: (name) @reference.call)
(nullsafe_member_call_expression name: (name) @reference.call)
(scoped_call_expression name: (name) @reference.call)
(object_creation_expression [(name) (qualified_name)] @reference.call)

(attribute [(name) (qualified_name)] @reference.type)
(named_type [(name) (qualified_name)] @reference.type)
(scoped_call_expression scope: [(name) (qualified_name)] @reference.path)
(scoped_property_access_expression scope: [(name) (qualified_name)] @reference.path)
(class_constant_access_expression . [(name) (qualified_name)] @reference.path)
(class_constant_access_expression (_) (name) @reference.member)
(binary_expression operator: "instanceof" right: [(name) (qualified_name)] @reference.type)
(argument (name) @reference.read)
(binary_expression (name) @reference.read)
(array_element_initializer (name) @reference.read)
(return_statement (name) @reference.read)
(assignment_expression right: (name) @reference.read)
