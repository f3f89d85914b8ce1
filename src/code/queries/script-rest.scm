; What is left in JavaScript and TypeScript when no pattern before it names the place.

(shorthand_property_identifier) @reference.read
(identifier) @reference.read
