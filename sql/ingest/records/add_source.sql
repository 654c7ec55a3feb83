-- Add a source; returns its id and trust (0.5 where none was given).
-- Parameters: $name, $kind, $uri, $trust, $defaults, $version, $removed_version (NULL, or that
-- of a source not yet published).
INSERT INTO sources
SELECT
    coalesce(max(source_id), 0) + 1, $name, $kind, $uri, coalesce($trust, 0.5), $defaults,
    $version, $removed_version
FROM sources
RETURNING source_id, trust
