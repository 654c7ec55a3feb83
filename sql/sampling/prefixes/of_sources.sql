-- The prefixes that hold for the sources of a version.
-- Parameters: $version.
-- Rows: by name of the source.
WITH latest AS (
    SELECT source_id, definition
    FROM source_prefixes
    WHERE version <= $version
    QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY version DESC) = 1
)
SELECT sources.source_id, sources.name, latest.definition
FROM latest
JOIN sources ON sources.source_id = latest.source_id
WHERE
    latest.definition IS NOT NULL
    AND is_live(sources.added_version, sources.removed_version, $version)
ORDER BY sources.name
