-- name: chunks
-- The text of every chunk there is.
-- Rows: by chunk_key.
SELECT chunk_key, text_hash
FROM chunks
ORDER BY chunk_key

-- name: hashed
-- What texts are known by.
-- Rows: by number.
SELECT md5_number_lower(text) AS text_hash
FROM incoming
ORDER BY number

-- name: of_sections
-- What sections are of, that are named by record and role, and by position where one is given.
-- Parameters: $version.
-- Rows: by number.
SELECT
    incoming.number, count(DISTINCT sections.section_key) AS sections,
    count(DISTINCT chunks.text_hash) AS texts,
    coalesce(min(chunks.text_hash), 0)::UBIGINT AS text_hash
FROM incoming
LEFT JOIN records
    ON records.record_id = incoming.record_id
    AND is_live(records.added_version, records.removed_version, $version)
LEFT JOIN stored_sections AS sections
    ON sections.record_key = records.record_key
    AND sections.role = incoming.role
    AND sections.position = coalesce(incoming.position, sections.position)
LEFT JOIN chunks ON chunks.section_key = sections.section_key
GROUP BY incoming.number
ORDER BY incoming.number

-- name: live
-- The chunks of a version, for people.
-- Parameters: $version.
-- Rows: by chunk_key.
SELECT chunks.chunk_key, records.record_id, sections.role, chunks.text_hash
FROM chunks
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = sections.record_key
WHERE is_live(records.added_version, records.removed_version, $version)
ORDER BY chunks.chunk_key
