-- name: minings
-- Return the newest minings of each scorer.
-- Rows: by recipe, source, split and scorer.
SELECT
    minings.generation AS mining, minings.recipe, minings.source, minings.split, minings.scorer,
    minings.corpus_version AS version, minings.finished_at, minings.anchors, minings.candidates,
    coalesce(ranked.positives_ranked, 0) AS positives_ranked
FROM minings
LEFT JOIN (
    SELECT generation, count(*) AS positives_ranked
    FROM candidates
    WHERE rank = 1 AND positive_rank IS NOT NULL
    GROUP BY generation
) AS ranked ON ranked.generation = minings.generation
ORDER BY minings.recipe, minings.source, minings.split, minings.scorer

-- name: outcomes
-- Count anchors by the candidates that the policies of recipes retain: none, some, or 16.
-- Rows: by recipe, source, split and outcome.
SELECT recipe, source, split, outcome, sum(anchors)::BIGINT AS anchors
FROM (
    SELECT recipe, source, split, if(negatives < 16, 'some', 'full') AS outcome, 1 AS anchors
    FROM (
        SELECT recipe, source, split, anchor_section_key, count(*) AS negatives
        FROM negatives
        GROUP BY recipe, source, split, anchor_section_key
    )
    UNION ALL
    SELECT minings.recipe, minings.source, minings.split, 'none', minings.anchors - coalesce(found.anchors, 0)
    FROM (SELECT DISTINCT recipe, source, split, max(anchors) AS anchors FROM minings GROUP BY ALL) AS minings
    LEFT JOIN (
        SELECT recipe, source, split, count(DISTINCT anchor_section_key) AS anchors
        FROM negatives
        GROUP BY recipe, source, split
    ) AS found
        ON found.recipe = minings.recipe
        AND found.source = minings.source
        AND found.split = minings.split
)
GROUP BY recipe, source, split, outcome
HAVING sum(anchors) > 0
ORDER BY recipe, source, split, outcome

-- name: guards
-- Count the documents that share a term with an anchor by outcome: excluded by a guard, beyond the
-- depth, or a candidate.
-- Rows: by recipe, source, split, scorer and outcome.
SELECT
    minings.recipe, minings.source, minings.split, minings.scorer, entry.key AS became,
    entry.value AS documents
FROM minings, unnest(map_entries(minings.counts)) AS entries (entry)
WHERE entry.value > 0
ORDER BY minings.recipe, minings.source, minings.split, minings.scorer, became

-- name: scores
-- Count the positives and candidates of a mining in each twentieth of the range of scores.
-- Parameters: $mining, $every (one anchor in $every is counted).
-- Rows: the lowest scores first.
WITH sampled AS (
    SELECT rank, score, positive_score
    FROM candidates
    WHERE generation = $mining AND anchor_section_key % $every = 0
),

scores AS (
    SELECT 'positives' AS what, positive_score AS score
    FROM sampled
    WHERE rank = 1 AND positive_score IS NOT NULL
    UNION ALL
    SELECT 'negatives', score
    FROM sampled
),

ends AS (
    SELECT min(score) AS low, greatest(max(score) - min(score), 1e-9) AS wide
    FROM scores
)

SELECT
    ends.low + bins.bin * ends.wide / 20 AS at_least,
    count(*) FILTER (binned.what = 'positives') AS positives,
    count(*) FILTER (binned.what = 'negatives') AS negatives
FROM range(20) AS bins (bin)
CROSS JOIN ends
LEFT JOIN (
    SELECT scores.what, least(floor((scores.score - ends.low) / ends.wide * 20), 19) AS bin
    FROM scores
    CROSS JOIN ends
) AS binned ON binned.bin = bins.bin
WHERE ends.low IS NOT NULL
GROUP BY bins.bin, ends.low, ends.wide
ORDER BY bins.bin

-- name: ranks
-- Count anchors by the rank of their positive among the candidates, between powers of two. A
-- positive without a rank shares no term with its anchor.
-- Parameters: $mining.
-- Rows: the first rank first, anchors without a rank last.
SELECT
    1::BIGINT << power AS at_least,
    (2::BIGINT << power) - 1 AS at_most,
    count(*) AS anchors
FROM (
    SELECT floor(log2(positive_rank))::INTEGER AS power
    FROM candidates
    WHERE generation = $mining AND rank = 1
)
GROUP BY power
ORDER BY power NULLS LAST
