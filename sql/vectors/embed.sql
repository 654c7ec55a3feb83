-- name: distinct_texts
-- The distinct texts of the chunks of live records. Each has one of its chunks, its number of
-- characters, and the first and the last of its roles. Roles are numbered from 1; a role outside
-- $roles has the number after the last.
-- Parameters: $split (NULL for all), $splits and $roles (lists of names).
-- Rows: by the quantile of text_hash within the split, so every prefix has its share of each split.
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
-- The texts of some chunks (Arrow wanted: place, chunk_key, text_hash) that have not changed since.
-- Rows: in any order, with their place.
SELECT
    wanted.place,
    substring(sections.text, chunks.start + 1, chunks.length) AS text
FROM wanted
JOIN chunks ON chunks.chunk_key = wanted.chunk_key AND chunks.text_hash = wanted.text_hash
JOIN sections ON sections.section_key = chunks.section_key
