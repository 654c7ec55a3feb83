-- name: size
-- How many chunks there are, and the characters of all.
SELECT count(*) AS chunks, coalesce(sum(length), 0)::BIGINT AS characters
FROM chunks

-- name: last
-- The last section of a published record: keys above it may be used again.
-- Parameters: $unpublished.
SELECT coalesce(max(section_key), 0)
FROM stored_sections AS sections
WHERE
    record_key <= (
        SELECT max(record_key) FROM records WHERE removed_version IS DISTINCT FROM $unpublished
    )

-- name: count
-- How many sections and chunks there are of a range of keys, and the characters of the chunks.
-- Parameters: $low, $high (section keys, both included).
SELECT
    (
        SELECT count(*) FROM stored_sections WHERE section_key BETWEEN $low AND $high
    ) AS sections,
    count(*) AS chunks, coalesce(sum(length), 0)::BIGINT AS characters
FROM chunks
WHERE section_key BETWEEN $low AND $high

-- name: sizes
-- How many characters the chunks of every 64 sections have.
-- Parameters: $low, $high (section keys, both included).
-- Rows: by key.
WITH lengths AS (
    SELECT section_key, length FROM chunks
    UNION ALL
    SELECT section_key, 0 AS length FROM stored_sections
)
SELECT section_key // 64 AS part, sum(length)::BIGINT AS characters
FROM lengths
WHERE section_key BETWEEN $low AND $high
GROUP BY part
ORDER BY part

-- name: sections
-- The texts of sections, each with its record, its role and its tokens.
-- Parameters: $low, $high (section keys, both included), $roles (their names).
-- Rows: by section_key.
SELECT
    section_key, text, record_key, list_position($roles::VARCHAR[], role) - 1 AS role, token_count
FROM sections
WHERE section_key BETWEEN $low AND $high
ORDER BY section_key

-- name: places
-- Where the texts of sections lie, if they were left in files.
-- Parameters: $low, $high (section keys, both included).
-- Rows: by section_key.
SELECT file_key, file_row, heading
FROM stored_sections
WHERE section_key BETWEEN $low AND $high
ORDER BY section_key

-- name: chunks
-- Chunks with the trust of their records.
-- Parameters: $low, $high (section keys, both included).
-- Rows: by chunk_key.
SELECT
    chunks.chunk_key, chunks.section_key, chunks.record_key, chunks.kind, chunks.window_index,
    chunks.start, chunks.length, chunks.start_token, chunks.token_count, records.trust
FROM chunks
JOIN records ON records.record_key = chunks.record_key
WHERE chunks.section_key BETWEEN $low AND $high
ORDER BY chunks.chunk_key
