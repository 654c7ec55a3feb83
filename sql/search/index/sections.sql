-- What an index covers: the live sections of a source and split, with about how many characters
-- each has: up to the end of its last window. (To measure the texts themselves, DuckDB would have to
-- hold thousands of them at a time, however long they are.)
-- Parameters: $source, $split.
-- Rows: in the order of documents: by hash of the record id, then position.
WITH covered AS (
    SELECT sections.section_key, md5(records.record_id) AS place, sections.position
    FROM sections
    JOIN records ON records.record_key = sections.record_key
    JOIN sources ON sources.source_id = records.source_id
    JOIN splits ON splits.record_key = records.record_key
    WHERE records.removed_version IS NULL AND sources.name = $source AND splits.split = $split
),

spans AS (
    SELECT chunks.section_key, max(chunks.start + chunks.length) AS characters
    FROM chunks
    SEMI JOIN covered ON covered.section_key = chunks.section_key
    GROUP BY chunks.section_key
)

SELECT covered.section_key, coalesce(spans.characters, 0)::BIGINT AS characters
FROM covered
LEFT JOIN spans ON spans.section_key = covered.section_key
ORDER BY covered.place, covered.position
