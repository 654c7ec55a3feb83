-- The candidates of a mining.
-- Parameters: $mining.
-- Rows: as they were stored.
SELECT anchor_section_key, rank, negative_section_key, score
FROM mined_negatives
WHERE mining_key = $mining
