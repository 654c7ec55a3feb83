-- name: lengths
-- The tokens of the records of a split as of a version.
-- Parameters: $split, $version.
-- Rows: by record_key.
SELECT records.record_key, sum(sections.token_count)::BIGINT AS number
FROM records
JOIN splits ON splits.record_key = records.record_key
JOIN stored_sections AS sections ON sections.record_key = records.record_key
WHERE
    splits.split = $split
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY records.record_key
ORDER BY records.record_key

-- name: of_records
-- The number of the key of each record that a table names.
-- Parameters: $name, $version.
-- Rows: by record_key.
SELECT records.record_key, batch_keys.number::BIGINT AS number
FROM batch_keys
JOIN records ON records.record_id = batch_keys.record_id
WHERE
    batch_keys.name = $name
    AND is_live(records.added_version, records.removed_version, $version)
ORDER BY records.record_key

-- name: of_texts
-- The number of the key of each text that a table names.
-- Parameters: $name.
-- Rows: by text_hash.
SELECT text_hash, number::BIGINT AS number
FROM batch_keys
WHERE name = $name AND text_hash IS NOT NULL
ORDER BY text_hash

-- name: digests
-- The names of tables of keys, whether each is of texts, and a digest of what it says.
-- Rows: by name.
SELECT
    name, bool_or(text_hash IS NOT NULL) AS of_texts,
    to_hex(bit_xor(md5_number_lower(json_array(number, key, record_id, text_hash)))) AS digest
FROM batch_keys
GROUP BY name
ORDER BY name
