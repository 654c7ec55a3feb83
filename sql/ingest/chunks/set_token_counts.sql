-- Set the token counts of sections (Arrow counted: section_key, token_count).
UPDATE sections
SET token_count = counted.token_count
FROM counted
WHERE sections.section_key = counted.section_key
