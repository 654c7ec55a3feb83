-- name: of_chunks
-- The texts of chunks (Arrow incoming: number, chunk_key).
-- Rows: by number; how many texts it is, and the hash.
SELECT count(chunks.text_hash) AS texts, coalesce(min(chunks.text_hash), 0)::UBIGINT AS text_hash
FROM incoming
LEFT JOIN chunks ON chunks.chunk_key = incoming.chunk_key
GROUP BY incoming.number
ORDER BY incoming.number

-- name: of_texts
-- What texts are known by (Arrow incoming: number, text).
-- Rows: by number; 1 if it is the text of a chunk, else 0, and the hash.
SELECT
    (md5_number_lower(text) IN (SELECT text_hash FROM chunks))::BIGINT AS texts,
    md5_number_lower(text) AS text_hash
FROM incoming
ORDER BY number

-- name: of_sections
-- The texts of sections that are named by record and role, and by position where one is given
-- (Arrow incoming: number, record_id, role, position).
-- Rows: by number; how many different texts, and the hash of one.
SELECT
    count(DISTINCT chunks.text_hash) AS texts,
    coalesce(min(chunks.text_hash), 0)::UBIGINT AS text_hash
FROM incoming
LEFT JOIN live_records AS records ON records.record_id = incoming.record_id
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
