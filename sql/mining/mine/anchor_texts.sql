-- The beginnings of the texts of anchors (Arrow asked: row, section_key).
-- Parameters: $characters (so many of each).
-- Rows: by row.
SELECT left(sections.text, $characters) AS text
FROM asked
JOIN sections ON sections.section_key = asked.section_key
ORDER BY asked.row
