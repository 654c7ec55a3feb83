-- name: minings
-- The minings that new runs would use.
-- Rows: by recipe, source and split.
SELECT
    minings.mining_key AS mining, minings.recipe, sources.name AS source, minings.split,
    minings.method, minings.corpus_version AS version, minings.finished_at,
    count(*) AS anchors, sum(mined_anchors.candidates)::BIGINT AS negatives,
    count(*) FILTER (mined_anchors.outcome <> 'full') AS left_short,
    count(mined_anchors.positive_rank) AS positives_ranked
FROM minings
JOIN sources ON sources.source_id = minings.source_id
JOIN mined_anchors ON mined_anchors.mining_key = minings.mining_key
WHERE
    minings.finished_at IS NOT NULL
    AND minings.superseded_at IS NULL
    AND sources.removed_version IS NULL
GROUP BY
    minings.mining_key, minings.recipe, sources.name, minings.split, minings.method,
    minings.corpus_version, minings.finished_at
ORDER BY minings.recipe, sources.name, minings.split

-- name: outcomes
-- What became of the anchors of the minings that new runs would use.
-- Rows: by recipe, source, split and outcome.
SELECT
    minings.recipe, sources.name AS source, minings.split, mined_anchors.outcome,
    count(*) AS anchors
FROM minings
JOIN sources ON sources.source_id = minings.source_id
JOIN mined_anchors ON mined_anchors.mining_key = minings.mining_key
WHERE
    minings.finished_at IS NOT NULL
    AND minings.superseded_at IS NULL
    AND sources.removed_version IS NULL
GROUP BY minings.recipe, sources.name, minings.split, mined_anchors.outcome
ORDER BY minings.recipe, sources.name, minings.split, mined_anchors.outcome

-- name: guards
-- What became of the documents that share a term with an anchor: excluded by a guard, removed by a
-- filter, out of range, not needed, kept.
-- Rows: by recipe, source, split and what became of them.
SELECT recipe, source, split, entry.key AS became, entry.value AS documents
FROM (
    SELECT
        minings.recipe, sources.name AS source, minings.split,
        from_json(minings.report, '{"counts": "MAP(VARCHAR, BIGINT)"}').counts AS counts
    FROM minings
    JOIN sources ON sources.source_id = minings.source_id
    WHERE
        minings.finished_at IS NOT NULL
        AND minings.superseded_at IS NULL
        AND sources.removed_version IS NULL
) AS reports, unnest(map_entries(counts)) AS entries (entry)
WHERE entry.value > 0
ORDER BY recipe, source, split, became

-- name: scores
-- How many positives and negatives of a mining have a score in each twentieth of all scores.
-- Parameters: $mining, $every (of one anchor in so many).
-- Rows: the lowest scores first.
WITH scores AS (
    SELECT 'positives' AS what, positive_score AS score
    FROM mined_anchors
    WHERE mining_key = $mining AND anchor_section_key % $every = 0 AND positive_score IS NOT NULL
    UNION ALL
    SELECT 'negatives', score
    FROM mined_negatives
    WHERE mining_key = $mining AND anchor_section_key % $every = 0 AND score IS NOT NULL
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
    FROM mined_anchors
    WHERE mining_key = $mining
)
GROUP BY power
ORDER BY power NULLS LAST
