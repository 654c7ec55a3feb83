-- How many negatives the fullest anchor of every one of some minings has, where it has fewest.
-- Parameters: $minings (keys).
SELECT min(candidates)
FROM (
    SELECT max(candidates) AS candidates
    FROM mined_anchors
    WHERE list_contains($minings::INTEGER[], mining_key)
    GROUP BY mining_key
)
