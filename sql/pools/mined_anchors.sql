-- The anchors that negatives are mined for: sections of the pool.
-- Rows: by section_key and class.
SELECT DISTINCT record_key, section_key, class
FROM verdicts
WHERE reason IS NULL
ORDER BY section_key, class
