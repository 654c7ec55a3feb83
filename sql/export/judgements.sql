-- Make a table of the relevant documents of queries: the positives of their anchors, or NULL for an
-- anchor without a positive. pool_anchors lists the windows of anchors (Arrow: chunk_key). The first
-- anchor with a text in a source is the query of all its anchors with this text.
-- Parameters: $own (the positive is the anchor itself), $same (it may have the anchor's text).
CREATE TEMP TABLE exported_judgements AS
WITH found AS (
    SELECT DISTINCT chunks.section_key
    FROM pool_anchors
    JOIN chunks ON chunks.chunk_key = pool_anchors.chunk_key
),
anchors AS (
    SELECT
        found.section_key,
        sections.record_key,
        records.source_id,
        md5(sections.text) AS text_hash,
        min(found.section_key) OVER (PARTITION BY records.source_id, md5(sections.text))
            AS query_key
    FROM found
    JOIN sections ON sections.section_key = found.section_key
    JOIN records ON records.record_key = sections.record_key
),
positives AS (
    SELECT
        exported_positives.record_key,
        exported_positives.section_key,
        md5(sections.text) AS text_hash
    FROM exported_positives
    JOIN sections ON sections.section_key = exported_positives.section_key
)
SELECT
    anchors.source_id,
    anchors.section_key AS anchor_key,
    anchors.query_key,
    positives.section_key
FROM anchors
LEFT JOIN positives
    ON positives.record_key = anchors.record_key
    AND CASE
        WHEN $own THEN positives.section_key = anchors.section_key
        ELSE $same OR positives.text_hash <> anchors.text_hash
    END
