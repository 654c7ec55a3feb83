-- name: candidates
-- The candidates of some anchors (Arrow wanted: number, section_key) to a depth.
-- Parameters: $files, $depth.
SELECT wanted.number, found.negative_section_key
FROM read_parquet($files) AS found
JOIN wanted ON wanted.section_key = found.anchor_section_key
WHERE found.rank BETWEEN 1 AND $depth
ORDER BY wanted.number, found.rank

-- name: texts
-- The texts of some sections (Arrow wanted: number, section_key).
-- Rows: by number.
SELECT sections.text
FROM wanted
JOIN sections ON sections.section_key = wanted.section_key
ORDER BY wanted.number
