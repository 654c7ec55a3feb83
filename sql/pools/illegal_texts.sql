-- Texts that anchors must not get for a negative: those of a record, or (known) those of a
-- normalised text.
-- Rows: in any order.
SELECT FALSE AS known, record_key::UBIGINT AS owner, text_hash
FROM own_texts
UNION ALL
SELECT TRUE AS known, normal AS owner, text_hash
FROM known_texts
