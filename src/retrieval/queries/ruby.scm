; Ruby. The first pattern that names a place wins, so what is special comes first.

(class name: (constant) @name) @definition.class
(class name: (scope_resolution name: (constant) @name)) @definition.class
(module name: (constant) @name) @definition.module
(module name: (scope_resolution name: (constant) @name)) @definition.module
(method name: (_) @name) @definition.function
(singleton_method name: (_) @name) @definition.function
(alias name: (_) @name) @definition.method
(assignment left: (constant) @name) @definition.variable
((call method: (identifier) @_method arguments: (argument_list (simple_symbol) @name @definition.field))
  (#any-of? @_method "attr_accessor" "attr_reader" "attr_writer"))

((call method: (identifier) @_method arguments: (argument_list (string))) @import
  (#any-of? @_method "require" "require_relative" "load"))
((call method: (identifier) @_method arguments: (argument_list (simple_symbol) (string))) @import
  (#eq? @_method "autoload"))

(superclass (constant) @reference.super)
(superclass (scope_resolution name: (constant) @reference.super))
((call !receiver method: (identifier) @_method arguments: (argument_list (constant) @reference.super))
  (#any-of? @_method "include" "extend" "prepend"))
((call !receiver method: (identifier) @_method arguments: (argument_list (scope_resolution name: (constant) @reference.super)))
  (#any-of? @_method "include" "extend" "prepend"))

(call method: [(identifier) (constant)] @reference.call)
(constant) @reference.path

(assignment left: (identifier) @local)
(left_assignment_list (identifier) @local)
(operator_assignment left: (identifier) @local)
(exception_variable (identifier) @local)
(for pattern: (identifier) @local)
(as_pattern name: (identifier) @local)
(method_parameters (identifier) @parameter)
(block_parameters (identifier) @parameter)
(lambda_parameters (identifier) @parameter)
(destructured_parameter (identifier) @parameter)
(block_parameter name: (identifier) @parameter)
(keyword_parameter name: (identifier) @parameter)
(optional_parameter name: (identifier) @parameter)
(splat_parameter name: (identifier) @parameter)
(hash_splat_parameter name: (identifier) @parameter)

; A plain name that is no local variable is a call.
(identifier) @reference.bare
