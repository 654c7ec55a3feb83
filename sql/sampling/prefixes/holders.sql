-- The source of every record, and whether it has a prefix of its own.
-- Rows: in any order.
SELECT
    records.record_key,
    records.source_id,
    records.record_key IN (SELECT record_prefixes.record_key FROM record_prefixes) AS own
FROM records
