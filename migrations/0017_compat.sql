-- Which programs may work on this schema: those that know migration `min_version`. A migration that only
-- adds leaves the number as it is, so that an older program runs on beside a newer one; one that removes or
-- changes something raises it to the migration that made the old form unnecessary.
CREATE TABLE schema_compat (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    min_version BIGINT NOT NULL
);

INSERT INTO schema_compat (id, min_version) VALUES (1, 17);
