-- name: outcomes
-- Count the rows of each current source by outcome, gate and rule.
-- Rows: by source, outcome, gate and rule.
SELECT
    judgements.source, judgements.outcome, judgements.gate, judgements.rule, count(*) AS "rows"
FROM judgements
JOIN sources ON sources.source_id = judgements.source_id AND sources.removed_version IS NULL
GROUP BY judgements.source, judgements.outcome, judgements.gate, judgements.rule
ORDER BY ALL

-- name: examples
-- Return the first rows that each rule of a gate rejected, with the start of their stored texts.
-- Parameters: $each (rows of a rule), $cut (characters of a text).
-- Rows: by source, gate, rule and row.
SELECT
    source, gate, rule, "row", record_id, length(text) AS characters, left(text, $cut) AS text
FROM (
    SELECT
        judgements.source, judgements.gate, judgements.rule, judgements."row",
        judgements.record_id,
        array_to_string(
            [
                section.text
                FOR section IN rejected_rows.sections
                IF section.text IS NOT NULL AND section.role <> 'rejected'
            ],
            chr(10) || chr(10)
        ) AS text
    FROM (
        SELECT source_id, gate, rule, unnest(min("row", $each)) AS "row"
        FROM judgements
        WHERE outcome = 'rejected'
        GROUP BY source_id, gate, rule
    ) AS first
    JOIN judgements ON judgements.source_id = first.source_id AND judgements."row" = first."row"
    JOIN sources ON sources.source_id = first.source_id AND sources.removed_version IS NULL
    LEFT JOIN rejected_rows
        ON rejected_rows.source_id = first.source_id AND rejected_rows."row" = first."row"
)
ORDER BY source, gate, rule, "row"

-- name: languages
-- Count the measured languages of the records of every source.
-- Rows: by source, the most frequent language first.
SELECT
    judgements.source, judgements.metrics.language AS language, count(*) AS records,
    median(judgements.metrics.language_probability) AS median_probability
FROM judgements
JOIN records ON records.record_key = judgements.record_key
WHERE records.removed_version IS NULL AND judgements.metrics.language IS NOT NULL
GROUP BY judgements.source, judgements.metrics.language
ORDER BY judgements.source, count(*) DESC, language

-- name: metrics
-- Return quantiles of the metrics of every source, from one record in $every.
-- Parameters: $every, $names (of the metrics).
-- Rows: by source and metric.
SELECT
    source, metric, count(*) AS records,
    quantile_disc(measured, 0.1) AS tenth, quantile_disc(measured, 0.5) AS half,
    quantile_disc(measured, 0.9) AS nine_tenths
FROM (
    UNPIVOT (
        SELECT judgements.source, unnest(judgements.metrics)
        FROM judgements
        JOIN records ON records.record_key = judgements.record_key
        WHERE records.removed_version IS NULL AND judgements.judgement_key % $every = 0
    )
    ON COLUMNS(lambda name: list_contains($names, name))
    INTO NAME metric VALUE measured
)
GROUP BY source, metric
ORDER BY source, metric
