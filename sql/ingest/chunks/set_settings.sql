-- Keep the settings of the chunks.
-- Parameters: $value (JSON).
DELETE FROM settings
WHERE name = 'chunking';

INSERT INTO settings
VALUES ('chunking', $value)
