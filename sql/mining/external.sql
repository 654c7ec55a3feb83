-- name: drop
-- Forget all that was given.
DROP TABLE IF EXISTS external_rows;

DROP TABLE IF EXISTS external_scores;

DROP TABLE IF EXISTS external_entries;

DROP TABLE IF EXISTS external_ranked

-- name: create
-- Where external scores wait until all of them have been read.
CREATE OR REPLACE TEMP TABLE external_rows (
    anchor_id VARCHAR,
    anchor_section_key BIGINT,
    negative_id VARCHAR,
    negative_section_key BIGINT,
    score DOUBLE NOT NULL
)

-- name: stage
-- Add a block of external scores (Arrow incoming: some of the columns).
INSERT INTO external_rows BY NAME
SELECT *
FROM incoming

-- name: resolve
-- What external scores name: anchor and negative become a section key if one was given, else the
-- key of the record; NULL for what is not there.
-- Parameters: $version.
CREATE OR REPLACE TEMP TABLE external_scores AS
WITH live AS (
    SELECT records.record_key, records.record_id
    FROM records
    WHERE is_live(records.added_version, records.removed_version, $version)
),

live_sections AS (
    SELECT sections.section_key, sections.record_key
    FROM stored_sections AS sections
    JOIN live ON live.record_key = sections.record_key
)

SELECT
    coalesce(anchors.record_key, anchor_sections.record_key) AS anchor_record,
    coalesce(anchors.record_key, anchor_sections.section_key) AS anchor,
    coalesce(negatives.record_key, negative_sections.record_key) AS negative_record,
    coalesce(negatives.record_key, negative_sections.section_key) AS negative,
    external_rows.score
FROM external_rows
LEFT JOIN live AS anchors ON anchors.record_id = external_rows.anchor_id
LEFT JOIN live_sections AS anchor_sections
    ON anchor_sections.section_key = external_rows.anchor_section_key
LEFT JOIN live AS negatives ON negatives.record_id = external_rows.negative_id
LEFT JOIN live_sections AS negative_sections
    ON negative_sections.section_key = external_rows.negative_section_key

-- name: pairs
-- Which sources and splits the anchors of external scores are of; NULL for anchors that are not there.
-- Rows: by source and split.
SELECT sources.name AS source, splits.split, count(*) AS times
FROM external_scores
LEFT JOIN records ON records.record_key = external_scores.anchor_record
LEFT JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
GROUP BY sources.name, splits.split
ORDER BY sources.name, splits.split

-- name: fates
-- How many of the external scores are what.
SELECT fate::VARCHAR AS fate, count(*) AS times
FROM external_entries
GROUP BY fate

-- name: positives
-- The lowest score of a positive that was given of an anchor.
-- Rows: in any order.
SELECT anchor, min(score) AS score
FROM external_entries
WHERE fate = 'positive'
GROUP BY anchor

-- name: rank
-- The candidates among the external scores, by anchor, so that a block of anchors is one stretch of
-- rows. Of a candidate that was given several times the best score counts.
CREATE OR REPLACE TEMP TABLE external_ranked AS
SELECT anchor, document, max(score) AS score, count(*) AS times
FROM external_entries
WHERE fate = 'candidate'
GROUP BY anchor, document
ORDER BY anchor

-- name: block
-- The candidates of a block of anchors.
-- Parameters: $start, $stop.
-- Rows: by anchor, the best first, ties by document.
SELECT anchor, document, score, times
FROM external_ranked
WHERE anchor >= $start AND anchor < $stop
ORDER BY anchor, score DESC, document
