-- name: current
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

-- name: by_key
-- One finished mining, superseded or not.
-- Parameters: $mining.
SELECT
    minings.mining_key, minings.recipe, sources.name AS source, minings.split, minings.method,
    minings.definition, minings.settings, minings.content, minings.corpus_version,
    minings.digest, minings.finished_at, minings.report
FROM minings
JOIN sources ON sources.source_id = minings.source_id
WHERE minings.mining_key = $mining AND minings.finished_at IS NOT NULL

-- name: unfinished
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

-- name: begin
-- Begin a mining; it is finished by minings/finish.
-- Parameters: $recipe, $source, $split, $method, $definition, $settings, $content, $version, $anchors.
-- Rows: one, its key.
INSERT INTO minings
SELECT
    (SELECT greatest(max(mining_key), last_key('mining')) + 1 FROM minings),
    $recipe,
    (SELECT source_id FROM sources WHERE name = $source AND removed_version IS NULL),
    $split, $method, $definition, $settings, $content, $version, $anchors,
    now()::TIMESTAMP, NULL, NULL, NULL, NULL
RETURNING mining_key

-- name: append_anchors
-- Append what became of anchors (Arrow new_anchors, columns as the table's but for the key).
-- Parameters: $mining.
INSERT INTO mined_anchors
SELECT
    $mining, anchor_section_key, candidates, outcome, examined, positive_score, positive_rank
FROM new_anchors

-- name: append_negatives
-- Append negatives (Arrow new_negatives, columns as the table's but for the key).
-- Parameters: $mining.
INSERT INTO mined_negatives
SELECT $mining, anchor_section_key, rank, negative_section_key, score
FROM new_negatives

-- name: note
-- Note how far a mining is.
-- Parameters: $mining, $report.
UPDATE minings SET report = $report WHERE mining_key = $mining

-- name: quantiles
-- Quantiles (0, 5, 25, 50, 75, 95, 100 %) of a mining's scores and of the positives' ranks.
-- Parameters: $mining.
SELECT
    (
        SELECT quantile_disc(score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_negatives
        WHERE mining_key = $mining
    ) AS negative_score,
    (
        SELECT quantile_disc(positive_score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_anchors
        WHERE mining_key = $mining
    ) AS positive_score,
    (
        SELECT quantile_disc(positive_rank, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_anchors
        WHERE mining_key = $mining
    ) AS positive_rank

-- name: unranked
-- Anchors of a mining whose lowest-scoring positive scores 0: they share no term.
-- Parameters: $mining.
-- Rows: one.
SELECT count(*) AS anchors
FROM mined_anchors
WHERE mining_key = $mining AND positive_score = 0

-- name: digest
-- What identifies the negatives of a mining: their number, and two sums over all of them.
-- Parameters: $mining.
SELECT
    count(*) AS negatives,
    coalesce(sum(
        (anchor_section_key * 1000003 + rank)::HUGEINT
        * (negative_section_key % 998244353 + 1)
    ), 0) AS pairs,
    coalesce(sum(
        round(score * 1048576)::HUGEINT * ((anchor_section_key * 31 + rank) % 1000003 + 1)
    ), 0) AS scores
FROM mined_negatives
WHERE mining_key = $mining

-- name: finish
-- Finish a mining.
-- Parameters: $mining, $digest, $report.
UPDATE minings
SET finished_at = now()::TIMESTAMP, digest = $digest, report = $report
WHERE mining_key = $mining

-- name: supersede
-- Let a finished mining take the place of the earlier ones of its recipe, source and split.
-- Parameters: $mining.
UPDATE minings
SET superseded_at = now()::TIMESTAMP
WHERE
    superseded_at IS NULL
    AND mining_key <> $mining
    AND (recipe, source_id, split) = (
        SELECT (recipe, source_id, split) FROM minings AS later WHERE later.mining_key = $mining
    )

-- name: outcomes
-- What became of the anchors of a mining.
-- Parameters: $mining.
-- Rows: by outcome.
SELECT outcome, count(*) AS anchors
FROM mined_anchors
WHERE mining_key = $mining
GROUP BY outcome
ORDER BY outcome

-- name: forget_anchors
-- Delete the anchors of an interrupted mining.
-- Parameters: $mining.
DELETE FROM mined_anchors WHERE mining_key = $mining

-- name: forget_negatives
-- Delete the negatives of an interrupted mining.
-- Parameters: $mining.
DELETE FROM mined_negatives WHERE mining_key = $mining

-- name: forget
-- Delete an interrupted mining.
-- Parameters: $mining.
DELETE FROM minings WHERE mining_key = $mining AND finished_at IS NULL
