; Python. The first pattern that names a place wins, so what is special comes first.

(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
(type_alias_statement left: (type (identifier) @name)) @definition.alias
(assignment left: (identifier) @name) @definition.variable
(assignment left: (pattern_list (identifier) @name)) @definition.variable

(import_statement) @import
(import_from_statement) @import

(class_definition superclasses: (argument_list (identifier) @reference.super))
(class_definition superclasses: (argument_list (attribute attribute: (identifier) @reference.super)))
(class_definition superclasses: (argument_list (subscript value: (identifier) @reference.super)))
(class_definition superclasses: (argument_list (subscript value: (attribute attribute: (identifier) @reference.super))))

(call function: (identifier) @reference.call)
(call function: (attribute attribute: (identifier) @reference.call))
(decorator (identifier) @reference.call)
(decorator (attribute attribute: (identifier) @reference.call))

(parameters (identifier) @parameter)
(typed_parameter (identifier) @parameter)
(default_parameter name: (identifier) @parameter)
(typed_default_parameter name: (identifier) @parameter)
(lambda_parameters (identifier) @parameter)
(for_statement left: (identifier) @local)
(for_in_clause left: (identifier) @local)
(as_pattern_target (identifier) @local)

(type (identifier) @reference.type)
(type (attribute attribute: (identifier) @reference.type))
(generic_type (identifier) @reference.type)
(type (subscript value: (attribute attribute: (identifier) @reference.type)))
(type (binary_operator (identifier) @reference.type))
(except_clause value: (identifier) @reference.type)
(except_clause value: (attribute attribute: (identifier) @reference.type))
(except_clause value: (tuple (identifier) @reference.type))
(except_clause value: (as_pattern (identifier) @reference.type))
(except_clause value: (as_pattern (tuple (identifier) @reference.type)))
(class_pattern (dotted_name (identifier) @reference.type .))

(attribute object: (identifier) @reference.path)
(attribute attribute: (identifier) @reference.member)
(argument_list (identifier) @reference.read)
(keyword_argument value: (identifier) @reference.read)
(return_statement (identifier) @reference.read)
(raise_statement (identifier) @reference.read)
(assignment right: (identifier) @reference.read)
(pair value: (identifier) @reference.read)
(list (identifier) @reference.read)
(tuple (identifier) @reference.read)
(subscript value: (identifier) @reference.read)
(comparison_operator (identifier) @reference.read)
(binary_operator (identifier) @reference.read)
(default_parameter value: (identifier) @reference.read)
(for_statement right: (identifier) @reference.read)
(boolean_operator (identifier) @reference.read)
(not_operator argument: (identifier) @reference.read)
(conditional_expression (identifier) @reference.read)
(if_statement condition: (identifier) @reference.read)
(list_splat (identifier) @reference.read)
(dictionary_splat (identifier) @reference.read)
(interpolation expression: (identifier) @reference.read)
(parenthesized_expression (identifier) @reference.read)
(for_in_clause right: (identifier) @reference.read)
(subscript subscript: (identifier) @reference.read)
(yield (identifier) @reference.read)
(with_item value: (identifier) @reference.read)
(lambda body: (identifier) @reference.read)
