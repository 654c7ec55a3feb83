-- Records with more than one split.
-- Rows: one, their number.
SELECT count(*)
FROM (SELECT record_key FROM splits GROUP BY record_key HAVING count(*) > 1)
