; Bash. The first pattern that names a place wins, so what is special comes first.

(function_definition name: (word) @name) @definition.function
(variable_assignment name: (variable_name) @name) @definition.variable

((command name: (command_name (word) @_command) . argument: (_)) @import
  (#any-of? @_command "source" "."))

(command name: (command_name (word) @reference.call))
(simple_expansion (variable_name) @reference.read)
(expansion (variable_name) @reference.read)
