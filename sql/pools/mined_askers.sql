-- Every section that the anchor selector matches, in the pool or not: what its record answers is
-- known to answer its text.
-- Rows: by section_key.
SELECT DISTINCT record_key, section_key
FROM anchors
ORDER BY section_key
