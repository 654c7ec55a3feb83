-- name: counts
-- The number of rows of each outcome, gate and rule in the sources of the newest version, with the
-- first ones.
-- Parameters: $examples (rows of each outcome).
-- Rows: by source, outcome, gate and rule.
SELECT
    judgements.source, judgements.outcome, judgements.gate, judgements.rule, count(*) AS "rows",
    list(judgements."row" ORDER BY judgements."row")[1:$examples] AS examples
FROM judgements
JOIN sources ON sources.source_id = judgements.source_id AND sources.removed_version IS NULL
GROUP BY ALL
ORDER BY ALL

-- name: why
-- The outcomes of the rows of an id, with their texts.
-- Parameters: $record (a record id; or SOURCE:ROW).
-- Rows: by source and row.
SELECT
    judgements.source, judgements.file, judgements."row", judgements.line, judgements.record_id,
    judgements.record_key, judgements.outcome, judgements.gate, judgements.rule,
    judgements.bytes, judgements.metrics,
    rejected_texts.text AS rejected_text
FROM judgements
LEFT JOIN rejected_texts
    ON rejected_texts.source = judgements.source AND rejected_texts."row" = judgements."row"
WHERE
    judgements.record_id = $record
    OR concat(judgements.source, ':', judgements."row") = $record
ORDER BY judgements.source, judgements."row"

-- name: metric_of
-- The values of one metric of the records that a source has at a version.
-- Parameters: $metric (its name), $source, $version.
-- Rows: in any order.
SELECT struct_extract(judgements.metrics, $metric)::DOUBLE AS value
FROM judgements
JOIN records ON records.record_key = judgements.record_key
WHERE
    judgements.source = $source
    AND is_live(records.added_version, records.removed_version, $version)
    AND struct_extract(judgements.metrics, $metric) IS NOT NULL

-- name: sources_with_metrics
-- The sources of the newest version with measured rows.
-- Rows: by name.
SELECT DISTINCT judgements.source
FROM judgements
JOIN sources ON sources.source_id = judgements.source_id AND sources.removed_version IS NULL
WHERE judgements.measured IS NOT NULL
ORDER BY judgements.source
