-- name: sections
-- The sections of live records with one of some texts (Arrow wanted: text_hash, score) in a chunk,
-- by the best of their chunks.
-- Parameters: $source, $split (NULL for all), $k.
-- Rows: by score, the highest first, then record_id and position; beginning belongs to the chunk.
WITH hits AS (
    SELECT
        chunks.section_key,
        max(wanted.score) AS score,
        arg_max(chunks.chunk_key, (wanted.score, -chunks.chunk_key)) AS chunk_key
    FROM wanted
    JOIN chunks ON chunks.text_hash = wanted.text_hash
    JOIN live_records AS records ON records.record_key = chunks.record_key
    WHERE
        ($source IS NULL OR records.source = $source)
        AND ($split IS NULL OR in_split(records.split, $split))
    GROUP BY chunks.section_key
),

-- Select before the join with texts; ties with the last row stay, because ids order them.
best AS (
    SELECT section_key, score, chunk_key
    FROM hits
    WHERE score >= (SELECT min(score) FROM (SELECT score FROM hits ORDER BY score DESC LIMIT $k))
)

SELECT
    records.record_id,
    best.score,
    sections.text,
    records.source,
    records.split,
    sections.position AS section,
    sections.role,
    substring(sections.text, chunks.start + 1, least(chunks.length, 1000)) AS beginning
FROM best
JOIN chunks ON chunks.chunk_key = best.chunk_key
JOIN sections ON sections.section_key = best.section_key
JOIN live_records AS records ON records.record_key = sections.record_key
ORDER BY best.score DESC, records.record_id, sections.position
LIMIT $k
