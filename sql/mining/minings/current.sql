-- The minings of a recipe that new runs would use.
-- Parameters: $recipe (NULL for all), $source (NULL for all), $split (NULL for all).
-- Rows: by recipe, source and split.
SELECT
    minings.mining_key, minings.recipe, sources.name AS source, minings.split, minings.method,
    minings.definition, minings.settings, minings.content, minings.corpus_version,
    minings.digest, minings.finished_at, minings.report
FROM minings
JOIN sources ON sources.source_id = minings.source_id
WHERE
    minings.finished_at IS NOT NULL
    AND minings.superseded_at IS NULL
    AND sources.removed_version IS NULL
    AND minings.recipe = coalesce($recipe, minings.recipe)
    AND sources.name = coalesce($source, sources.name)
    AND minings.split = coalesce($split, minings.split)
ORDER BY minings.recipe, sources.name, minings.split, minings.mining_key
