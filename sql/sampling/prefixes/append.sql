-- Store the prefixes of records of their own (Arrow new_prefixes: record_key, definition).
INSERT INTO record_prefixes
SELECT record_key, definition
FROM new_prefixes
