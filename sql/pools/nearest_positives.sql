-- The part of a triplet pool whose positives come from the nearest record.
WITH positives AS (
    SELECT nearest.record_key, slot.chunk_key, slot.text_hash, positive_columns
    FROM nearest
    JOIN members AS slot ON slot.record_key = nearest.other_key
    WHERE nearest_condition
)
SELECT 1
