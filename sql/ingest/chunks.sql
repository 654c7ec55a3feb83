-- name: get_settings
-- Settings of the stored chunks (JSON); no row while they are the defaults.
SELECT value
FROM settings
WHERE name = 'chunking'

-- name: next_keys
-- First unused key of records, sections and chunks. The keys of sections that preprocessors
-- dropped are kept free, those after the last stored section too.
WITH latest AS (
    SELECT section_key, record_key, position
    FROM stored_sections AS sections
    ORDER BY section_key DESC
    LIMIT 1
)

SELECT
    (SELECT greatest(max(record_key), last_key('record')) + 1 FROM records) AS record,
    greatest(last_key('section') + 1, (SELECT coalesce(max(section_key), 0) + 1 FROM latest) + (
        SELECT count(*)
        FROM section_originals
        LEFT JOIN latest ON TRUE
        WHERE
            latest.record_key IS NULL
            OR section_originals.record_key > latest.record_key
            OR (
                section_originals.record_key = latest.record_key
                AND section_originals.position > latest.position
            )
    )) AS section,
    (SELECT greatest(max(chunk_key), last_key('chunk')) + 1 FROM chunks) AS chunk

-- name: set_settings
-- Keep the settings of the chunks.
-- Parameters: $value (JSON).
DELETE FROM settings
WHERE name = 'chunking';

INSERT INTO settings
VALUES ('chunking', $value)

-- name: clear
-- Forget all chunks.
DELETE FROM chunks

-- name: sections
-- The next sections to chunk.
-- Parameters: $low, $high (section keys, both included).
-- Rows: by section_key.
SELECT section_key, record_key, position, text
FROM sections
WHERE section_key BETWEEN $low AND $high
ORDER BY section_key

-- name: last
-- The key of the last of the next sections to chunk; NULL where none is left.
-- Parameters: $low (section_key), $limit.
SELECT max(section_key)
FROM (
    SELECT section_key
    FROM stored_sections
    WHERE section_key >= $low
    ORDER BY section_key
    LIMIT $limit
)

-- name: append
-- Append new_chunks (Arrow), each with the hash of its text.
INSERT INTO chunks
SELECT
    chunk_key, section_key, record_key, kind, window_index, overlap, start, length,
    start_token, token_count, md5_number_lower(text)
FROM new_chunks

-- name: set_token_counts
-- Set the token counts of sections (Arrow counted: section_key, token_count).
UPDATE stored_sections
SET token_count = counted.token_count
FROM counted
WHERE stored_sections.section_key = counted.section_key
