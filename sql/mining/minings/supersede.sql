-- Let a finished mining take the place of the earlier ones of its recipe, source and split.
-- Parameters: $mining.
UPDATE minings
SET superseded_at = now()::TIMESTAMP
WHERE
    superseded_at IS NULL
    AND mining_key <> $mining
    AND (recipe, source_id, split) = (
        SELECT (recipe, source_id, split) FROM minings AS later WHERE later.mining_key = $mining
    )
