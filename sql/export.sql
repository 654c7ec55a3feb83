-- name: positives
-- The sections that the records of anchors take their positives from, as a table. Their windows
-- are listed in pool_positives (Arrow: record_key of the anchor, chunk_key).
CREATE TEMP TABLE exported_positives AS
SELECT DISTINCT pool_positives.record_key, chunks.section_key
FROM pool_positives
JOIN chunks ON chunks.chunk_key = pool_positives.chunk_key

-- name: mined_anchors
-- Room for the anchors of minings.
CREATE TEMP TABLE mined_anchors (
    mining_key INTEGER, anchor_section_key BIGINT, positive_score DOUBLE
)

-- name: mined_negatives
-- Room for what policies leave of candidates.
CREATE TEMP TABLE mined_negatives (
    mining_key INTEGER, anchor_section_key BIGINT, rank INTEGER, negative_section_key BIGINT,
    score DOUBLE
)

-- name: add_anchors
-- The anchors of a mining, with the scores of their positives.
-- Parameters: $mining, $files.
INSERT INTO mined_anchors
SELECT $mining, anchor_section_key, positive_score
FROM read_parquet($files)
WHERE rank <= 1

-- name: add_negatives
-- What a policy leaves (Arrow left_rows: anchor_section_key, rank, negative_section_key, score).
-- Parameters: $mining.
INSERT INTO mined_negatives
SELECT $mining, anchor_section_key, rank, negative_section_key, score
FROM left_rows

-- name: mined_between
-- The negatives of some anchors of a mining.
-- Parameters: $mining, $low and $high, the least and the greatest section key of an anchor.
-- Rows: in any order.
SELECT anchor_section_key, negative_section_key
FROM mined_negatives
WHERE mining_key = $mining AND anchor_section_key BETWEEN $low AND $high

-- name: documents
-- The documents of a recipe, as a table: what its negative selector matches (the windows of
-- pool_negatives; Arrow: chunk_key), its positives, and what was mined. An id is that of the
-- record; the position comes behind it where the record has several documents, or where its id
-- looks as if a position stood there already: so no two documents share an id. Ids of a collection
-- stay as they are.
-- Parameters: $are_plain (whether it is a collection).
CREATE TEMP TABLE exported_documents AS
WITH found AS (
    SELECT chunks.section_key
    FROM pool_negatives
    JOIN chunks ON chunks.chunk_key = pool_negatives.chunk_key
    UNION
    SELECT section_key FROM exported_positives
    UNION
    SELECT negative_section_key
    FROM mined_negatives
)
SELECT
    found.section_key,
    records.source_id,
    CASE
        WHEN
            count(*) OVER (PARTITION BY sections.record_key) > 1
            OR (NOT $are_plain AND regexp_matches(records.record_id, '#[0-9]+$'))
            THEN concat(records.record_id, '#', sections.position)
        ELSE records.record_id
    END AS id,
    CASE WHEN $are_plain THEN records.meta['title'] END AS title
FROM found
JOIN stored_sections AS sections ON sections.section_key = found.section_key
JOIN records ON records.record_key = sections.record_key

-- name: anchors
-- The anchors of minings, in the order in which they are written, and how many negatives each has.
-- Parameters: $minings (keys), $sources (of each).
-- Rows: by source and section_key.
SELECT
    mined_anchors.mining_key, mined_anchors.anchor_section_key AS section_key,
    coalesce(counted.candidates, 0)::INTEGER AS candidates
FROM mined_anchors
JOIN (SELECT unnest($minings) AS mining_key, unnest($sources) AS source) AS minings
    ON minings.mining_key = mined_anchors.mining_key
LEFT JOIN (
    SELECT mining_key, anchor_section_key, count(*) AS candidates
    FROM mined_negatives
    GROUP BY mining_key, anchor_section_key
) AS counted
    ON counted.mining_key = mined_anchors.mining_key
    AND counted.anchor_section_key = mined_anchors.anchor_section_key
ORDER BY minings.source, mined_anchors.anchor_section_key, mined_anchors.mining_key

-- name: pool_anchors
-- The anchors of pools, which need no mining (the windows of pool_anchors; Arrow: chunk_key), as if
-- they were of one.
-- Rows: by source and section_key.
SELECT 0::INTEGER AS mining_key, sections.section_key, 0::INTEGER AS candidates
FROM (
    SELECT DISTINCT chunks.section_key
    FROM pool_anchors
    JOIN chunks ON chunks.chunk_key = pool_anchors.chunk_key
) AS found
JOIN stored_sections AS sections ON sections.section_key = found.section_key
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = records.source_id
ORDER BY sources.name, sections.section_key

-- name: anchors_of
-- The anchors of requests (Arrow: place, mining_key, section_key): text, and what mining found, if
-- they were mined.
-- Rows: by place.
SELECT
    records.record_id,
    sections.position,
    sections.text,
    mined_anchors.positive_score
FROM requests
JOIN sections ON sections.section_key = requests.section_key
JOIN records ON records.record_key = sections.record_key
LEFT JOIN mined_anchors
    ON mined_anchors.mining_key = requests.mining_key
    AND mined_anchors.anchor_section_key = requests.section_key
ORDER BY requests.place

-- name: positives_of
-- The positives of requests (Arrow: place, mining_key, section_key).
-- Rows: by place and section_key.
SELECT requests.place, exported_positives.section_key
FROM requests
JOIN stored_sections AS sections ON sections.section_key = requests.section_key
JOIN exported_positives ON exported_positives.record_key = sections.record_key
ORDER BY requests.place, exported_positives.section_key

-- name: negatives_of
-- The mined negatives of requests (Arrow: place, mining_key, section_key), the hardest first.
-- Parameters: $negatives (how many an anchor may have; NULL for all).
-- Rows: by place and rank.
SELECT
    requests.place,
    mined_negatives.negative_section_key AS section_key,
    mined_negatives.score,
    mined_negatives.rank
FROM requests
JOIN mined_negatives
    ON mined_negatives.mining_key = requests.mining_key
    AND mined_negatives.anchor_section_key = requests.section_key
QUALIFY
    row_number() OVER (PARTITION BY requests.place ORDER BY mined_negatives.rank)
    <= coalesce($negatives, 999999)
ORDER BY requests.place, mined_negatives.rank

-- name: document_keys
-- The documents, in the order in which they are written.
-- Rows: by source and section_key.
SELECT exported_documents.section_key
FROM exported_documents
JOIN sources ON sources.source_id = exported_documents.source_id
ORDER BY sources.name, exported_documents.section_key

-- name: texts
-- The documents of some keys (Arrow: section_key) with their texts.
-- Rows: in any order.
SELECT
    wanted.section_key, exported_documents.id, exported_documents.title, sections.text
FROM wanted
JOIN exported_documents ON exported_documents.section_key = wanted.section_key
JOIN sections ON sections.section_key = wanted.section_key

-- name: query_counts
-- How many anchors there are, how many different queries, and how many of these have a positive.
SELECT
    count(DISTINCT anchor_key) AS anchors,
    count(DISTINCT query_key) AS queries,
    count(DISTINCT query_key) FILTER (section_key IS NOT NULL) AS judged
FROM exported_judgements

-- name: judged_queries
-- The queries that have a positive, with the ids of the documents that are relevant to them.
-- Rows: by source and section_key; relevant by section_key.
WITH pairs AS (
    SELECT DISTINCT source_id, query_key, section_key
    FROM exported_judgements
),
queries AS (
    SELECT
        pairs.source_id,
        pairs.query_key,
        list(exported_documents.id ORDER BY pairs.section_key) AS relevant
    FROM pairs
    JOIN exported_documents ON exported_documents.section_key = pairs.section_key
    GROUP BY pairs.source_id, pairs.query_key
)
SELECT records.record_id, sections.position, sections.text, queries.relevant
FROM queries
JOIN sections ON sections.section_key = queries.query_key
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = queries.source_id
ORDER BY sources.name, queries.query_key
