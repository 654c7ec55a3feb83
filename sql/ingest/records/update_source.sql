-- Note what a known source was read from this time; returns its id and trust. Text-only rows
-- added to a source with anchors leave it its richer default recipes.
-- Parameters: $name, $kind, $uri, $trust (NULL keeps the old one), $defaults.
UPDATE sources
SET
    kind = $kind,
    uri = $uri,
    trust = coalesce($trust, trust),
    defaults = CASE WHEN $defaults = 'text' THEN defaults ELSE $defaults END
WHERE name = $name AND removed_version IS NULL
RETURNING source_id, trust
