-- Records added by a version that was never committed.
-- Rows: one, their number.
SELECT count(*)
FROM records
WHERE added_version NOT IN (SELECT version FROM corpus_versions)
