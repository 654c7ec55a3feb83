-- Minings of a recipe, source and split that were interrupted.
-- Parameters: $recipe, $source, $split.
-- Rows: by key.
SELECT
    minings.mining_key, minings.method, minings.definition, minings.settings, minings.content,
    minings.anchors, minings.report,
    (SELECT count(*) FROM mined_anchors WHERE mining_key = minings.mining_key) AS done
FROM minings
JOIN sources ON sources.source_id = minings.source_id
WHERE
    minings.finished_at IS NULL
    AND minings.recipe = $recipe
    AND sources.name = $source
    AND minings.split = $split
ORDER BY minings.mining_key
