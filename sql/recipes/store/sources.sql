-- Sources of a version, with which default recipes suit them.
-- Parameters: $version.
-- Rows: by name.
SELECT name, defaults
FROM sources
WHERE added_version <= $version AND coalesce(removed_version > $version, TRUE)
ORDER BY name
