-- Texts that anchors of a normalised text must not get for a negative.
-- Rows: in any order.
SELECT normal, text_hash
FROM known_texts
