-- The meta of records that a prefix may show (Arrow wanted: record_key).
-- Rows: by record_key.
SELECT records.meta
FROM wanted
JOIN records ON records.record_key = wanted.record_key
ORDER BY wanted.record_key
