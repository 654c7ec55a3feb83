-- How many anchors a mining went through, and the negatives kept for them.
-- Parameters: $mining.
SELECT count(*) AS anchors, coalesce(sum(candidates), 0)::BIGINT AS negatives
FROM mined_anchors
WHERE mining_key = $mining
