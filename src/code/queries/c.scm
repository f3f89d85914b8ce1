; C, and what C++ has in common with it. The first pattern that names a place wins.

; A macro that defines a function, a test or a system call, is named by what it is given.
((function_definition
    !type
    declarator: (function_declarator declarator: (identifier) @_macro parameters: (parameter_list) @name)) @definition.function
  (#match? @_macro "^[A-Z][A-Z0-9_]+$"))
(function_definition declarator: (_) @declarator) @definition.function

(struct_specifier name: (type_identifier) @name body: (_)) @definition.class
(union_specifier name: (type_identifier) @name body: (_)) @definition.class
(enum_specifier name: (type_identifier) @name body: (_)) @definition.enum
(enumerator name: (identifier) @name) @definition.variant
; A type without a name of its own is called by its alias, and holds its fields.
(type_definition
  type: [(struct_specifier !name body: (_)) (union_specifier !name body: (_))]
  declarator: (type_identifier) @name) @definition.class
(type_definition type: (enum_specifier !name body: (_)) declarator: (type_identifier) @name) @definition.enum
(type_definition declarator: (_) @declarator @definition.alias)

(field_declaration declarator: (_) @declarator) @definition.field
; A function without its body where that is what is declared.
(declaration declarator: (_) @declarator) @definition.variable
(preproc_function_def name: (identifier) @name) @definition.macro
(preproc_def name: (identifier) @name value: (_)) @definition.variable

(preproc_include) @import

(preproc_params (identifier) @parameter)
(preproc_def !value name: (identifier) @local)
(parameter_declaration declarator: (_) @parameter.declarator)

(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (field_identifier) @reference.call))
(type_identifier) @reference.type

(identifier) @reference.read
