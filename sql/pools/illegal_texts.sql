-- Texts that anchors must not get for a negative: those of a record, or (known) those of a
-- normalised text. What is of the record's family only is left out: it is never drawn anyway.
-- Rows: in any order.
SELECT FALSE AS known, own_texts.record_key::UBIGINT AS owner, own_texts.text_hash
FROM own_texts JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT record_key, family FROM anchors) AS anchored USING (record_key)
WHERE texts.kin IS DISTINCT FROM anchored.family
UNION ALL SELECT TRUE AS known, question AS owner, text_hash
FROM known_texts
