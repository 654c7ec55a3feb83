-- Live records without a split, in a corpus that has splits.
-- Rows: one, their number.
SELECT count(*)
FROM live_records
WHERE split IS NULL AND EXISTS (SELECT name FROM settings WHERE name = 'splits')
