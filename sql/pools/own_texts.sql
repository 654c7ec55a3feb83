-- Texts of other families that a record's anchors must not get for a negative.
-- Rows: in any order.
SELECT record_key, text_hash
FROM own_texts
