-- Return the records that have a group, with their group.
-- Rows: one a record, in any order.
SELECT record_id, group_key
FROM live_records
WHERE group_key IS NOT NULL
