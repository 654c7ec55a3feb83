-- Records whose source is missing.
-- Rows: one, their number.
SELECT count(*)
FROM records
WHERE source_id NOT IN (SELECT source_id FROM sources)
