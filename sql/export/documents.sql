-- The documents of a recipe, as a table: what its negative selector matches (the windows of
-- pool_negatives; Arrow: chunk_key), its positives, and what was mined. An id is that of the
-- record; the position comes behind it where the record has several documents, or where its id
-- looks as if a position stood there already: so no two documents share an id.
-- Parameters: $minings (keys; none if nothing was mined).
CREATE TEMP TABLE exported_documents AS
WITH found AS (
    SELECT chunks.section_key
    FROM pool_negatives
    JOIN chunks ON chunks.chunk_key = pool_negatives.chunk_key
    UNION
    SELECT section_key FROM exported_positives
    UNION
    SELECT negative_section_key
    FROM mined_negatives
    WHERE list_contains($minings::INTEGER[], mining_key)
)
SELECT
    found.section_key,
    records.source_id,
    CASE
        WHEN
            count(*) OVER (PARTITION BY sections.record_key) > 1
            OR regexp_matches(records.record_id, '#[0-9]+$')
            THEN concat(records.record_id, '#', sections.position)
        ELSE records.record_id
    END AS id
FROM found
JOIN sections ON sections.section_key = found.section_key
JOIN records ON records.record_key = sections.record_key
