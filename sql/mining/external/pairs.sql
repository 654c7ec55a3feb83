-- Which sources and splits the anchors of external scores are of; NULL for anchors that are not there.
-- Rows: by source and split.
SELECT sources.name AS source, splits.split, count(*) AS times
FROM external_scores
LEFT JOIN records ON records.record_key = external_scores.anchor_record
LEFT JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = records.record_key
GROUP BY sources.name, splits.split
ORDER BY sources.name, splits.split
