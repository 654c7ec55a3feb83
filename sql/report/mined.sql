-- name: minings
-- The newest minings of each scorer.
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
-- How many candidates the policies of recipes leave to anchors: none, some, or 16.
-- Rows: by recipe, source, split and what is left.
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
-- What became of the documents that share a term with an anchor: excluded by a guard, beyond the
-- depth, or candidates.
-- Rows: by recipe, source, split, scorer and what became of them.
SELECT
    minings.recipe, minings.source, minings.split, minings.scorer, entry.key AS became,
    entry.value AS documents
FROM minings, unnest(map_entries(minings.counts)) AS entries (entry)
WHERE entry.value > 0
ORDER BY minings.recipe, minings.source, minings.split, minings.scorer, became

-- name: scores
-- How many positives and candidates of a mining have a score in each twentieth of all scores.
-- Parameters: $mining, $every (of one anchor in so many).
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
-- At which rank among the candidates the positive of an anchor is, between powers of two; of those
-- without a rank it shares no term.
-- Parameters: $mining.
-- Rows: the first rank first, those without one last.
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
