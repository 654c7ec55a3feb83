-- The texts of some sections (Arrow: section_key), whose keys lie from $low to $high.
-- Parameters: $low, $high.
-- Rows: by section_key.
SELECT sections.text
FROM sections
SEMI JOIN wanted ON wanted.section_key = sections.section_key
WHERE sections.section_key BETWEEN $low AND $high
ORDER BY sections.section_key
