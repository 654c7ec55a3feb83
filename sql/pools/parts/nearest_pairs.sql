-- The part of a triplet pool whose negatives come from the nearest record.
WITH pairs AS (
    SELECT record_key::UBIGINT AS class, other_key::UBIGINT AS bin
    FROM nearest
)
SELECT 1
