-- Keep how text becomes terms, by source.
-- Parameters: $value (JSON).
DELETE FROM settings
WHERE name = 'terms';

INSERT INTO settings
VALUES ('terms', $value)
