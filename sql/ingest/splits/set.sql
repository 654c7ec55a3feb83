-- Keep the settings of the splits.
-- Parameters: $value (JSON).
INSERT INTO settings
VALUES ('splits', $value)
