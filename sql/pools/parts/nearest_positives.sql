-- The part of a triplet pool whose positives come from the nearest record.
-- Parameters: $split, $version.
WITH positives AS (
    SELECT nearest.record_key, slot.chunk_key, slot.text_hash, positive_columns
    FROM nearest JOIN split_chunks($split, $version) AS slot ON other_key = slot.record_key
    WHERE nearest_condition
)
SELECT 1
