-- The part of a triplet pool whose positive is the anchor itself.
WITH positives AS (
    SELECT record_key, chunk_key, text_hash, positive_names FROM anchors
)
SELECT 1
