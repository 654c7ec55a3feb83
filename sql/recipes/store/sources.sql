-- Sources of a version, with which default recipes suit them.
-- Parameters: $version.
-- Rows: by name.
SELECT name, defaults
FROM sources
WHERE is_live(added_version, removed_version, $version)
ORDER BY name
