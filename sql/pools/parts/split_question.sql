-- The part of a triplet pool whose negatives, of any source, must not answer the anchor's question.
-- Parameters: $split, $version.

-- The class is the anchor's text, the bin a record, and they pair where the record asks it too.
WITH pairs AS (
    SELECT DISTINCT text_hash AS class, record_key::UBIGINT AS bin
    FROM split_chunks($split, $version) AS slot
    JOIN (SELECT DISTINCT text_hash FROM anchors) AS asking USING (text_hash)
    WHERE anchor_condition
)
SELECT 1
