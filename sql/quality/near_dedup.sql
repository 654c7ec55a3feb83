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
    SELECT bucket, min(place) AS first
    FROM buckets
    GROUP BY bucket
    HAVING count(*) > 1
)
SELECT DISTINCT shared.first, buckets.place
FROM buckets
JOIN shared ON shared.bucket = buckets.bucket
WHERE buckets.place > shared.first
ORDER BY shared.first, buckets.place

-- name: note_crowded
-- Note the buckets whose texts are not all linked already (Arrow known: place, first).
CREATE OR REPLACE TABLE crowded AS
SELECT buckets.bucket
FROM buckets
JOIN known ON known.place = buckets.place
GROUP BY buckets.bucket
HAVING count(*) > 2 AND min(known.first) < max(known.first)

-- name: crowded
-- The texts of those buckets. Of two, one is the first, and they were compared.
-- Rows: by bucket and place.
SELECT buckets.bucket, buckets.place
FROM buckets
JOIN crowded ON crowded.bucket = buckets.bucket
ORDER BY buckets.bucket, buckets.place

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
