-- How many live sections every source and split has.
-- Rows: by source, then split.
SELECT sources.name AS source, splits.split, count(*) AS sections
FROM sections
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE records.removed_version IS NULL
GROUP BY sources.name, splits.split
ORDER BY sources.name, splits.split
