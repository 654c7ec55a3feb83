-- The next sections to chunk.
-- Parameters: $after (section_key), $limit.
-- Rows: by section_key.
SELECT section_key, record_key, text
FROM sections
WHERE section_key > $after
ORDER BY section_key
LIMIT $limit
