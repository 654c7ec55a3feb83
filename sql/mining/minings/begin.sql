-- Begin a mining; it is finished by minings/finish.
-- Parameters: $recipe, $source, $split, $method, $definition, $settings, $content, $version, $anchors.
-- Rows: one, its key.
INSERT INTO minings
SELECT
    (SELECT coalesce(max(mining_key), 0) + 1 FROM minings),
    $recipe,
    (SELECT source_id FROM sources WHERE name = $source AND removed_version IS NULL),
    $split, $method, $definition, $settings, $content, $version, $anchors,
    now()::TIMESTAMP, NULL, NULL, NULL, NULL
RETURNING mining_key
