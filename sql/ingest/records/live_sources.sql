-- Sources of the newest version.
-- Rows: by source_id.
SELECT source_id, name, kind, uri, trust, defaults
FROM sources
WHERE removed_version IS NULL
ORDER BY source_id
