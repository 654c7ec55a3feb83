-- name: candidates
-- The candidates of some anchors (Arrow asked: number, section_key) to a depth.
-- Parameters: $files, $depth.
SELECT asked.number, found.negative_section_key
FROM read_parquet($files) AS found
JOIN asked ON asked.section_key = found.anchor_section_key
WHERE found.rank BETWEEN 1 AND $depth
ORDER BY asked.number, found.rank

-- name: texts
-- The texts of some sections (Arrow asked: number, section_key).
-- Rows: by number.
SELECT sections.text
FROM asked
JOIN sections ON sections.section_key = asked.section_key
ORDER BY asked.number
