-- name: clear
-- Forget a table of keys.
-- Parameters: $name.
DELETE FROM batch_keys
WHERE name = $name

-- name: append
-- Store a table of keys (Arrow new_keys: number, key, record_id, text_hash).
-- Parameters: $name.
INSERT INTO batch_keys
SELECT $name, number::INTEGER, key, record_id, text_hash
FROM new_keys

-- name: unknown
-- How many of the new keys (Arrow new_keys) are of no record, or no text, of the newest version.
SELECT count(*)
FROM new_keys
WHERE
    NOT coalesce(record_id IN (SELECT record_id FROM records WHERE removed_version IS NULL), FALSE)
    AND NOT coalesce(text_hash IN (SELECT text_hash FROM chunks), FALSE)
