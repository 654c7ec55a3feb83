-- Append new_sections (Arrow).
INSERT INTO sections
SELECT section_key, record_key, position, role, heading, text, token_count
FROM new_sections
