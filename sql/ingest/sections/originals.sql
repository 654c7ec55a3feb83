-- The sections of some records as they came, those that preprocessors dropped included: they have
-- no section_key.
-- Parameters: $low, $high (record keys, both included).
-- Rows: by record and position.
SELECT
    stored.section_key,
    coalesce(stored.record_key, original.record_key) AS record_key,
    coalesce(stored.position, original.position) AS position,
    coalesce(stored.role, original.role) AS role,
    coalesce(stored.heading, original.heading) AS heading,
    coalesce(original.text, stored.text) AS text
FROM (SELECT * FROM sections WHERE record_key BETWEEN $low AND $high) AS stored
FULL JOIN (SELECT * FROM section_originals WHERE record_key BETWEEN $low AND $high) AS original
    ON original.record_key = stored.record_key AND original.position = stored.position
ORDER BY 2, 3
