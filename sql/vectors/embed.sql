-- name: distinct_texts
-- The distinct texts of the chunks of live records, each with one chunk that has it, its
-- characters, and the first and the last of the roles that it occurs in (from 1; one more than there
-- are for any other).
-- Parameters: $split (NULL for all), $splits and $roles (lists of names).
-- Rows: by the quantile of text_hash within the split, so of any prefix each split has its share.
WITH of_chunks AS (
    SELECT
        chunks.text_hash, chunks.chunk_key, chunks.length,
        coalesce(list_position($splits::VARCHAR[], records.split), 0) AS split,
        coalesce(list_position($roles::VARCHAR[], sections.role), len($roles::VARCHAR[]) + 1)
            AS role
    FROM chunks
    JOIN live_records AS records ON records.record_key = chunks.record_key
    JOIN stored_sections AS sections ON sections.section_key = chunks.section_key
    WHERE $split IS NULL OR in_split(records.split, $split)
),

texts AS (
    SELECT
        text_hash,
        min(chunk_key) AS chunk_key,
        min(length) AS characters,
        min(split) AS split,
        min(role)::TINYINT AS role,
        max(role)::TINYINT AS last_role
    FROM of_chunks
    GROUP BY text_hash
)

SELECT text_hash, chunk_key, characters, role, last_role
FROM texts
ORDER BY
    (row_number() OVER (PARTITION BY split ORDER BY text_hash) - 0.5)
    / count(*) OVER (PARTITION BY split),
    text_hash

-- name: texts
-- The texts of some chunks (Arrow wanted: place, chunk_key, text_hash), of those that still are
-- what they were.
-- Rows: in any order; place says which is which.
SELECT
    wanted.place,
    substring(sections.text, chunks.start + 1, chunks.length) AS text
FROM wanted
JOIN chunks ON chunks.chunk_key = wanted.chunk_key AND chunks.text_hash = wanted.text_hash
JOIN sections ON sections.section_key = chunks.section_key
