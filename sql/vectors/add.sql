-- name: of_chunks
-- The texts of chunks (Arrow incoming: number, chunk_key).
-- Rows: by number; the number of texts, and the hash.
SELECT count(chunks.text_hash) AS texts, coalesce(min(chunks.text_hash), 0)::UBIGINT AS text_hash
FROM incoming
LEFT JOIN chunks ON chunks.chunk_key = incoming.chunk_key
GROUP BY incoming.number
ORDER BY incoming.number

-- name: of_texts
-- The hashes of texts (Arrow incoming: number, text).
-- Rows: by number; 1 if a chunk has the text, otherwise 0, and the hash.
SELECT
    (md5_number_lower(text) IN (SELECT text_hash FROM chunks))::BIGINT AS texts,
    md5_number_lower(text) AS text_hash
FROM incoming
ORDER BY number

-- name: of_sections
-- The texts of sections (Arrow incoming: number, record_id, role, position); position may be NULL.
-- Rows: by number; the number of different texts, and the hash of one.
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
-- The chunks of a version, for users.
-- Parameters: $version.
-- Rows: by chunk_key.
SELECT chunks.chunk_key, records.record_id, sections.role, chunks.text_hash
FROM chunks
JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = sections.record_key
WHERE is_live(records.added_version, records.removed_version, $version)
ORDER BY chunks.chunk_key
