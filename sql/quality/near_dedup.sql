-- name: words
-- The words of texts: runs of letters, digits and marks in lower case. In scripts without spaces
-- each character is a word. A text without such words is split at white space.
-- Parameters: $alone (a character of such scripts), $word, $solid (regular expressions).
-- Rows: one for each of `gram_texts` (place, text), in any order.
WITH spread AS (
    SELECT
        place,
        lower(CASE
            WHEN regexp_matches(text, $alone) THEN regexp_replace(text, $alone, ' \0 ', 'g')
            ELSE text
        END) AS text
    FROM gram_texts
),

found AS (SELECT place, text, regexp_extract_all(text, $word) AS words FROM spread)

SELECT
    place,
    CASE WHEN len(words) = 0 THEN regexp_extract_all(text, $solid) ELSE words END AS words
FROM found

-- name: hashes
-- The hash of each word (Arrow gram_words: place, word).
-- Rows: by place.
SELECT md5_number_lower(word) AS hash
FROM gram_words
ORDER BY place

-- name: create
-- Create the table of buckets, in a separate database: the bands of each text.
CREATE TABLE buckets (bucket UBIGINT NOT NULL, place BIGINT NOT NULL)

-- name: add
-- Append bands (Arrow incoming: bucket, place).
INSERT INTO buckets
SELECT bucket, place
FROM incoming

-- name: firsts
-- Pairs of the first text of a bucket and each other text in it.
-- Rows: each pair once, by place.
WITH shared AS (
    SELECT bucket, min(place) AS one
    FROM buckets
    GROUP BY bucket
    HAVING count(*) > 1
)
SELECT DISTINCT shared.one, buckets.place
FROM buckets
JOIN shared ON shared.bucket = buckets.bucket
WHERE buckets.place > shared.one
ORDER BY shared.one, buckets.place

-- name: neighbours
-- Pairs of each text and the 16 texts before it, in buckets of more than two.
-- Rows: each pair once, by place.
WITH crowded AS (
    SELECT bucket
    FROM buckets
    GROUP BY bucket
    HAVING count(*) > 2
),

pairs AS (
    SELECT
        buckets.place,
        unnest(list(buckets.place) OVER (
            PARTITION BY buckets.bucket ORDER BY buckets.place
            ROWS BETWEEN 16 PRECEDING AND 1 PRECEDING
        )) AS one
    FROM buckets
    JOIN crowded ON crowded.bucket = buckets.bucket
)

SELECT DISTINCT one, place
FROM pairs
ORDER BY one, place

-- name: forget
-- Delete the marked clusters of a version, before new ones are stored.
-- Parameters: $version.
DELETE FROM clusters
WHERE version = $version AND action = 'mark'

-- name: store
-- Store clusters (Arrow incoming: cluster, record_key, survivor, similarity).
-- Parameters: $version, $action, $settings (JSON).
INSERT INTO clusters
SELECT $version, cluster, record_key, survivor, similarity, $action, $settings
FROM incoming
