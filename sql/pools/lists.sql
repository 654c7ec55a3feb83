-- name: stage
-- The chunks that several pools look at as a table of its own, with the columns they look at:
-- joined once, it halves the time to open a sampler.
-- Parameters: $split, $version.
CREATE TEMP TABLE staged_chunks AS
SELECT slot.chunk_key, slot_columns
FROM split_chunks($split, $version) AS slot

-- name: text_counts
-- The records of a source and split, or their chunks, by what becomes of them in a text pool.
-- Parameters: $split, $version, $source.
-- Rows: by reason; NULL for those in the pool.
SELECT reason, count(*) AS anchors
FROM (
    SELECT NULL::VARCHAR AS reason
    FROM anchors GROUP BY unit_key
    UNION ALL SELECT 'no anchor' AS reason
    FROM (
        SELECT DISTINCT slot.record_key
        FROM split_chunks($split, $version) AS slot WHERE slot.source = $source
    )
    ANTI JOIN anchors USING (record_key)
)
GROUP BY reason
ORDER BY reason

-- name: text_anchors
-- What a sampler draws texts from: the chunks of the pool.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, text_hash
FROM anchors
ORDER BY record_key, chunk_key

-- name: unstage
-- Drop the table of pools/stage.
DROP TABLE staged_chunks

-- name: anchors
-- What a sampler draws anchors from: the chunks of the pool.
-- Rows: by record_key and chunk_key.
SELECT record_key, chunk_key, text_hash, positives, anchor_names
FROM verdicts
WHERE reason IS NULL
ORDER BY record_key, chunk_key

-- name: negatives
-- What a sampler draws negatives from.
-- Rows: by bin, record and chunk_key.
SELECT record_key, chunk_key, text_hash, negative_names
FROM negatives
ORDER BY negative_order

-- name: pairs
-- Which bins each class may, or must not, draw from.
-- Rows: by class and bin.
SELECT class, bin
FROM pairs
ORDER BY class, bin

-- name: positives
-- What a sampler draws positives from.
-- Rows: by record_key (the anchor's) and chunk_key.
SELECT record_key, chunk_key, text_hash
FROM positives
ORDER BY record_key, chunk_key

-- name: same
-- Positives an anchor must not be paired with: those of its very text.
-- Rows: by the anchor's and the positive's chunk_key.
SELECT anchors.chunk_key, positives.chunk_key AS positive_key
FROM anchors JOIN positives USING (record_key, text_hash)
ORDER BY ALL

-- name: counts
-- The records of a source and split, or their chunks, by what becomes of them in a pool.
-- Parameters: $split, $version, $source.
-- Rows: by reason; NULL for those in the pool.
SELECT reason, count(*) AS anchors
FROM (
    SELECT CASE WHEN count(*) > count(reason) THEN NULL ELSE arg_min(reason, chunk_key) END AS reason
    FROM verdicts GROUP BY unit_key
    UNION ALL SELECT 'no anchor' AS reason
    FROM (
        SELECT DISTINCT slot.record_key
        FROM split_chunks($split, $version) AS slot WHERE slot.source = $source
    )
    ANTI JOIN anchors USING (record_key)
)
GROUP BY reason
ORDER BY reason

-- name: mined_anchors
-- The anchors that negatives are mined for: sections of the pool.
-- Rows: by section_key and class.
SELECT DISTINCT record_key, section_key, class
FROM verdicts
WHERE reason IS NULL
ORDER BY section_key, class

-- name: mined_documents
-- The documents that negatives are mined among: sections the negative selector matches.
-- Rows: by section_key and bin.
SELECT DISTINCT record_key, section_key, bin
FROM negatives
ORDER BY section_key, bin

-- name: mined_positives
-- The sections that positives are taken from, by the record of the anchor.
-- Rows: by record_key (the anchor's) and section_key.
SELECT DISTINCT record_key, section_key
FROM positives
ORDER BY record_key, section_key

-- name: mined_askers
-- Every section that the anchor selector matches, in the pool or not: what its record answers is
-- known to answer its text.
-- Rows: by section_key.
SELECT DISTINCT record_key, section_key
FROM anchors
ORDER BY section_key

-- name: illegal_texts
-- Texts that anchors must not get for a negative: those of a record, or (known) those of a
-- normalised text. What is of the record's family only is left out: it is never drawn anyway.
-- Rows: in any order.
SELECT FALSE AS known, own_texts.record_key::UBIGINT AS owner, own_texts.text_hash
FROM own_texts JOIN texts USING (text_hash)
JOIN (SELECT DISTINCT record_key, family FROM anchors) AS anchored USING (record_key)
WHERE texts.kin IS DISTINCT FROM anchored.family
UNION ALL SELECT TRUE AS known, question AS owner, text_hash
FROM known_texts

-- name: sizes
-- How many classes and bins an sql() strategy compares.
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT bin) FROM negatives) AS bins
