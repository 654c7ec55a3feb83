-- name: positives
-- Make a table of the sections with positives of each anchor's record. pool_positives lists their
-- windows (Arrow: record_key of the anchor, chunk_key).
CREATE TEMP TABLE exported_positives AS
SELECT DISTINCT pool_positives.record_key, chunks.section_key
FROM pool_positives
JOIN chunks ON chunks.chunk_key = pool_positives.chunk_key

-- name: mined_anchors
-- Make a table for the anchors of minings.
CREATE TEMP TABLE mined_anchors (
    mining_key INTEGER, anchor_section_key BIGINT, positive_score DOUBLE
)

-- name: mined_negatives
-- Make a table for the candidates that policies retain.
CREATE TEMP TABLE mined_negatives (
    mining_key INTEGER, anchor_section_key BIGINT, rank INTEGER, negative_section_key BIGINT,
    score DOUBLE
)

-- name: add_anchors
-- Add the anchors of a mining, with the scores of their positives.
-- Parameters: $mining, $files.
INSERT INTO mined_anchors
SELECT $mining, anchor_section_key, positive_score
FROM read_parquet($files)
WHERE rank <= 1

-- name: add_negatives
-- Add the candidates that a policy retains (Arrow retained: anchor_section_key, rank,
-- negative_section_key, score).
-- Parameters: $mining.
INSERT INTO mined_negatives
SELECT $mining, anchor_section_key, rank, negative_section_key, score
FROM retained

-- name: mined_between
-- Return the negatives of a range of anchors of a mining.
-- Parameters: $mining, $low and $high, the least and the greatest section key of an anchor.
-- Rows: in any order.
SELECT anchor_section_key, negative_section_key
FROM mined_negatives
WHERE mining_key = $mining AND anchor_section_key BETWEEN $low AND $high

-- name: documents
-- Make a table of the documents of a recipe: the sections of its negative selector (the windows of
-- pool_negatives; Arrow: chunk_key), its positives, and the mined negatives. An id is the record's
-- id. The position follows if the record has several documents, or if its id already ends like
-- one. So document ids are unique. A collection has its own ids.
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
-- Return the anchors of minings in the order of the file, with the number of their negatives.
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
-- Return the anchors of pools (the windows of pool_anchors; Arrow: chunk_key) in the form of the
-- anchors of minings.
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
-- Return the anchors of requests (Arrow: place, mining_key, section_key): text, and the score of
-- mining, if they were mined.
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
-- Return the positives of requests (Arrow: place, mining_key, section_key).
-- Rows: by place and section_key.
SELECT requests.place, exported_positives.section_key
FROM requests
JOIN stored_sections AS sections ON sections.section_key = requests.section_key
JOIN exported_positives ON exported_positives.record_key = sections.record_key
ORDER BY requests.place, exported_positives.section_key

-- name: negatives_of
-- Return the mined negatives of requests (Arrow: place, mining_key, section_key), hardest first.
-- Parameters: $negatives (the maximum for an anchor; NULL for all).
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
-- Return the documents in the order of the file.
-- Rows: by source and section_key.
SELECT exported_documents.section_key
FROM exported_documents
JOIN sources ON sources.source_id = exported_documents.source_id
ORDER BY sources.name, exported_documents.section_key

-- name: texts
-- Return documents by key (Arrow wanted: section_key) with their texts.
-- Rows: in any order.
SELECT
    wanted.section_key, exported_documents.id, exported_documents.title, sections.text
FROM wanted
JOIN exported_documents ON exported_documents.section_key = wanted.section_key
JOIN sections ON sections.section_key = wanted.section_key

-- name: query_counts
-- Count the anchors, the distinct queries, and the queries with a positive.
SELECT
    count(DISTINCT anchor_key) AS anchors,
    count(DISTINCT query_key) AS queries,
    count(DISTINCT query_key) FILTER (section_key IS NOT NULL) AS judged
FROM exported_judgements

-- name: judged_queries
-- Return the queries with a positive, and the ids of their relevant documents.
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
