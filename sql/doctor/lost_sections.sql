-- Sections whose record is missing.
-- Rows: one, their number.
SELECT count(*)
FROM sections
WHERE record_key NOT IN (SELECT record_key FROM records)
