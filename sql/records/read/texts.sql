-- The sections of requested records (Arrow requests: request, record_key). Putting a record's
-- texts together here, by an ordered string_agg, took nine times as long as fetching them.
-- Parameters: $role (NULL for all).
-- Rows: in any order; a record's sections belong in that of section_key.
SELECT
    requests.request,
    sections.section_key,
    sections.role,
    sections.text
FROM requests
JOIN sections ON sections.record_key = requests.record_key
WHERE $role IS NULL OR sections.role = $role
