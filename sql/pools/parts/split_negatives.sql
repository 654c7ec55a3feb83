-- The part of a triplet pool whose negatives come from all sources of the split. Who has enough of
-- them in its own source draws there, as the pool of negatives_from = 'source' says.
-- Parameters: $split, $version.
WITH negatives AS (
    SELECT record_key, chunk_key, text_hash, negative_columns
    FROM split_chunks($split, $version) AS slot WHERE negative_condition
)
SELECT 1
