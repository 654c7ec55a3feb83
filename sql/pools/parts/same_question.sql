-- The part of a triplet pool whose negatives must not answer the anchor's own question.

-- The class is the anchor's text, the bin a record, and they pair where the record asks it too.
WITH pairs AS (
    SELECT DISTINCT text_hash AS class, record_key::UBIGINT AS bin
    FROM anchors
    WHERE label IS DISTINCT FROM 0 -- if binary
)
SELECT 1
