-- Ids that several live records have.
-- Rows: one, their number.
SELECT count(*)
FROM (SELECT record_id FROM live_records GROUP BY record_id HAVING count(*) > 1)
