-- One finished mining, superseded or not.
-- Parameters: $mining.
SELECT
    minings.mining_key, minings.recipe, sources.name AS source, minings.split, minings.method,
    minings.definition, minings.settings, minings.content, minings.corpus_version,
    minings.digest, minings.finished_at, minings.report
FROM minings
JOIN sources ON sources.source_id = minings.source_id
WHERE minings.mining_key = $mining AND minings.finished_at IS NOT NULL
