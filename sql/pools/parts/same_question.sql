-- The part of a triplet pool whose negatives must not answer the anchor's own question.

-- The class is the anchor's text, the group a record, and they pair where the record asks it too.
WITH pairs AS (
    SELECT DISTINCT text_hash AS class, record_key::UBIGINT AS class_group
    FROM anchors
)
SELECT 1
