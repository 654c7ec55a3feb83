-- The documents of some keys (Arrow: section_key) with their texts.
-- Rows: in any order.
SELECT wanted.section_key, exported_documents.id, sections.text
FROM wanted
JOIN exported_documents ON exported_documents.section_key = wanted.section_key
JOIN sections ON sections.section_key = wanted.section_key
