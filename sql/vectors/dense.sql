-- name: windows
-- The windows of sections (Arrow wanted: section, section_key) with the hashes of their texts.
-- Rows: by section and chunk_key.
SELECT wanted.section, chunks.text_hash
FROM wanted
JOIN chunks ON chunks.section_key = wanted.section_key
ORDER BY wanted.section, chunks.chunk_key
