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

-- name: there
-- Which recipes have mined negatives in a split, whoever draws them.
-- Parameters: $split.
-- Rows: by source and recipe.
SELECT sources.name AS source, minings.recipe, minings.anchors
FROM minings
JOIN sources ON sources.source_id = minings.source_id
WHERE
    minings.finished_at IS NOT NULL
    AND minings.superseded_at IS NULL
    AND sources.removed_version IS NULL
    AND minings.split = $split
ORDER BY sources.name, minings.recipe
