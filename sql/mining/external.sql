-- name: drop
-- Drop the rows of a table.
DROP TABLE IF EXISTS external_rows;

DROP TABLE IF EXISTS external_scores;

DROP TABLE IF EXISTS external_entries

-- name: create
-- Create the table in which external scores wait until all are read.
CREATE OR REPLACE TEMP TABLE external_rows (
    anchor_id VARCHAR,
    negative_id VARCHAR,
    score DOUBLE NOT NULL
)

-- name: stage
-- Add a block of external scores (Arrow incoming).
INSERT INTO external_rows BY NAME
SELECT *
FROM incoming

-- name: resolve
-- The records that external scores name; NULL if a record is missing.
CREATE OR REPLACE TEMP TABLE external_scores AS
SELECT anchors.record_key AS anchor, negatives.record_key AS negative, external_rows.score
FROM external_rows
LEFT JOIN live_records AS anchors ON anchors.record_id = external_rows.anchor_id
LEFT JOIN live_records AS negatives ON negatives.record_id = external_rows.negative_id

-- name: pairs
-- The sources and splits of the anchors of external scores; NULL for missing anchors.
-- Rows: by source and split.
SELECT records.source, records.split, count(*) AS times
FROM external_scores
LEFT JOIN live_records AS records ON records.record_key = external_scores.anchor
GROUP BY records.source, records.split
ORDER BY records.source, records.split

-- name: fates
-- The number of external scores by outcome.
SELECT fate::VARCHAR AS fate, sum(times)::BIGINT AS times
FROM external_entries
GROUP BY fate

-- name: positives
-- The lowest external score of each positive record of an anchor.
-- Rows: by anchor and record.
SELECT anchor, document AS record_key, lowest AS score
FROM external_entries
WHERE fate = 'positive'
ORDER BY anchor, document

-- name: block
-- The candidates of a block of anchors. A candidate of several rows has the best score.
-- Parameters: $start, $stop.
-- Rows: by anchor, the best first, ties by document.
SELECT anchor, document, score, times
FROM external_entries
WHERE fate = 'candidate' AND anchor >= $start AND anchor < $stop
ORDER BY anchor, score DESC, document

-- name: judged
-- Documents with labels of 0 or less, as candidates of their anchor's record.
-- Parameters: $source (of the anchors; NULL for all).
-- Rows: by anchor and negative.
SELECT queries.record_id AS anchor_id, documents.record_id AS negative_id, judged.label AS score
FROM (
    SELECT anchor, document, newest_label(label, added_version) AS label
    FROM labels GROUP BY anchor, document
) AS judged
JOIN live_records AS queries ON queries.id_hash = judged.anchor
JOIN live_records AS documents ON documents.id_hash = judged.document
WHERE judged.label <= 0 AND coalesce(queries.source = $source, TRUE)
ORDER BY anchor_id, negative_id
