-- Records by source and split.
-- Rows: by source, splits in their usual order.
SELECT source, split, records
FROM split_counts
ORDER BY source, list_position(['train', 'validation', 'test'], split)
