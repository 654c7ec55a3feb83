-- Which documents are relevant to which queries, as a table: the positives of their anchors.
-- Parameters: $own (the positive is the anchor itself), $same (it may have the anchor's text).
CREATE TEMP TABLE exported_judgements AS
SELECT DISTINCT
    exported_queries.source_id, exported_queries.query_key, exported_positives.section_key
FROM exported_queries
JOIN exported_positives ON exported_positives.record_key = exported_queries.record_key
JOIN sections ON sections.section_key = exported_positives.section_key
WHERE
    CASE
        WHEN $own THEN exported_positives.section_key = exported_queries.section_key
        ELSE $same OR md5(sections.text) <> exported_queries.text_hash
    END
