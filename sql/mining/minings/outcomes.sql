-- What became of the anchors of a mining.
-- Parameters: $mining.
-- Rows: by outcome.
SELECT outcome, count(*) AS anchors
FROM mined_anchors
WHERE mining_key = $mining
GROUP BY outcome
ORDER BY outcome
