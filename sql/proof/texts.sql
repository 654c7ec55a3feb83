-- name: hashes
-- The hashes of windows equal to each text, or in a section written like it.
-- Parameters: asked (Arrow: number, text).
-- Rows: by number and hash, each once.
SELECT asked.number, chunks.text_hash
FROM asked
JOIN stored_sections ON stored_sections.normalised_hash = normalised_hash(asked.text)
JOIN chunks ON chunks.section_key = stored_sections.section_key
UNION
SELECT asked.number, chunks.text_hash
FROM asked
JOIN chunks ON chunks.text_hash = md5_number_lower(asked.text)
ORDER BY ALL
