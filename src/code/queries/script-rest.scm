; What is left in JavaScript and TypeScript when no pattern before it names the place.

(member_expression property: (property_identifier) @reference.member)
(shorthand_property_identifier) @reference.read
(identifier) @reference.read
