-- name: words
-- The words of texts: runs of letters, digits and marks in lower case; in scripts without spaces
-- each character; of a text without any what white space parts.
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
-- Make the table of buckets, in a database of its own: which text has which band.
CREATE TABLE buckets (bucket UBIGINT NOT NULL, place BIGINT NOT NULL)

-- name: add
-- Append bands (Arrow incoming: bucket, place).
INSERT INTO buckets
SELECT bucket, place
FROM incoming

-- name: firsts
-- Every text with the first one of a bucket that has both.
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

-- name: note_neighbours
-- Note every text with the 16 before it in a bucket, where nothing links them (Arrow known: place,
-- first). Of two in a bucket one is the first, and they were compared.
CREATE OR REPLACE TABLE neighbours AS
WITH crowded AS (
    SELECT buckets.bucket
    FROM buckets
    JOIN known ON known.place = buckets.place
    GROUP BY buckets.bucket
    HAVING count(*) > 2 AND min(known.first) < max(known.first)
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

SELECT DISTINCT pairs.one, pairs.place
FROM pairs
JOIN known AS a ON a.place = pairs.one
JOIN known AS b ON b.place = pairs.place
WHERE a.first <> b.first

-- name: neighbours
-- Those pairs.
-- Rows: by place.
SELECT one, place
FROM neighbours
ORDER BY one, place

-- name: forget
-- Forget the clusters that were marked at a version, for those that are found now.
-- Parameters: $version.
DELETE FROM clusters
WHERE version = $version AND action = 'mark'

-- name: store
-- Store clusters (Arrow incoming: cluster, record_key, survivor, similarity).
-- Parameters: $version, $action, $settings (JSON).
INSERT INTO clusters
SELECT $version, cluster, record_key, survivor, similarity, $action, $settings
FROM incoming
