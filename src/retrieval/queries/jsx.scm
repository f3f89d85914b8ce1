; Elements in JavaScript and TypeScript; a small letter begins an element of the page.

(jsx_opening_element name: (identifier) @reference.element)
(jsx_opening_element name: (member_expression property: (property_identifier) @reference.element))
(jsx_self_closing_element name: (identifier) @reference.element)
(jsx_self_closing_element name: (member_expression property: (property_identifier) @reference.element))
