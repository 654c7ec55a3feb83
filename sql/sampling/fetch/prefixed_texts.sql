-- The texts of requests, some with a line in front (Arrow: request, section_key, start, length as
-- for fetch/texts, and line, NULL for none).
-- Rows: in any order; request says which is which.
SELECT
    prefixed.request,
    CASE
        WHEN prefixed.line IS NULL AND prefixed.length < 0 THEN sections.text
        WHEN prefixed.line IS NULL
            THEN substring(sections.text, prefixed.start + 1, prefixed.length)
        WHEN prefixed.length < 0 THEN prefixed.line || chr(10) || sections.text
        ELSE
            prefixed.line || chr(10) || substring(
                sections.text, prefixed.start + 1, prefixed.length
            )
    END AS text
FROM prefixed
JOIN sections ON sections.section_key = prefixed.section_key
