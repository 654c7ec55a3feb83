-- name: count
-- How many candidates a mining has.
-- Parameters: $mining.
SELECT count(*)
FROM mined_negatives
WHERE mining_key = $mining

-- name: read
-- The candidates of a mining.
-- Parameters: $mining.
-- Rows: as they were stored.
SELECT anchor_section_key, rank, negative_section_key, score
FROM mined_negatives
WHERE mining_key = $mining

-- name: sorted
-- The candidates of a mining that were not stored in order: sorting 32 million of them takes
-- seconds.
-- Parameters: $mining.
-- Rows: by the anchor's section and rank.
SELECT anchor_section_key, rank, negative_section_key, score
FROM mined_negatives
WHERE mining_key = $mining
ORDER BY anchor_section_key, rank
