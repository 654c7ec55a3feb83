-- Records by split.
-- Rows: splits in their usual order.
SELECT split, sum(records)::BIGINT AS records
FROM split_counts
WHERE split IS NOT NULL
GROUP BY split
ORDER BY list_position(['train', 'validation', 'test'], split)
