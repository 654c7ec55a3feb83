-- How many candidates a mining has.
-- Parameters: $mining.
SELECT count(*)
FROM mined_negatives
WHERE mining_key = $mining
