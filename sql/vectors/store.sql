-- name: sets
-- All sets, with their commits.
-- Rows: by name.
SELECT
    vector_sets.name, vector_sets.dimension, vector_sets.dtype, vector_sets.made_by,
    vector_sets.set_id,
    coalesce(
        list(
            {
                'number': vector_commits.number,
                'digest': vector_commits.digest,
                'added': vector_commits.vectors,
                'dropped': vector_commits.dropped
            }
            ORDER BY vector_commits.number
        ) FILTER (vector_commits.number IS NOT NULL),
        []
    ) AS commits
FROM vector_sets
LEFT JOIN vector_commits ON vector_commits.set_id = vector_sets.set_id
GROUP BY ALL
ORDER BY vector_sets.name

-- name: add_set
-- Add a new set; returns its number.
-- Parameters: $name, $dimension, $dtype, $made_by (JSON).
INSERT INTO vector_sets
SELECT coalesce(max(set_id), 0) + 1, $name, $dimension, $dtype, $made_by, now() AT TIME ZONE 'UTC'
FROM vector_sets
RETURNING set_id

-- name: create
-- Create the table of a set, and its view for users. The caller fills in names, the macro and the
-- dimension of the set.
CREATE TABLE packed_vectors_0 (
    text_hash UBIGINT NOT NULL, number INTEGER NOT NULL, vector BLOB NOT NULL
);
COMMENT ON TABLE packed_vectors_0 IS 'Vectors of a set as they are stored';
COMMENT ON COLUMN packed_vectors_0.text_hash IS 'Lower 64 bits of the MD5 of the bare text, as in chunks.text_hash';
COMMENT ON COLUMN packed_vectors_0.number IS 'The commit that added it';
COMMENT ON COLUMN packed_vectors_0.vector IS 'Its numbers in the dtype of the set, least byte first';

CREATE VIEW vectors_0 AS
SELECT text_hash, number, CAST(floats_of_dtype(vector) AS FLOAT[1]) AS vector
FROM packed_vectors_0;
COMMENT ON VIEW vectors_0 IS 'Vectors of a set as floats';
COMMENT ON COLUMN vectors_0.text_hash IS 'Lower 64 bits of the MD5 of the bare text, as in chunks.text_hash';
COMMENT ON COLUMN vectors_0.number IS 'The commit that added it';
COMMENT ON COLUMN vectors_0.vector IS 'Its numbers, whatever the dtype of the set'

-- name: add
-- Add vectors to a set, with the numbers of their commits.
INSERT INTO packed_vectors_0
SELECT text_hash, number, vector
FROM incoming

-- name: add_commit
-- Add a commit.
-- Parameters: $set_id, $number, $digest, $vectors.
INSERT INTO vector_commits
VALUES ($set_id, $number, $digest, $vectors, 0, now() AT TIME ZONE 'UTC')

-- name: new
-- The rows of texts without a vector (Arrow incoming: row, text_hash); the first row of equal texts.
-- Rows: by row.
SELECT min(incoming.row) AS row
FROM incoming
ANTI JOIN packed_vectors_0 ON packed_vectors_0.text_hash = incoming.text_hash
GROUP BY incoming.text_hash
ORDER BY row

-- name: hashes
-- The hashes of a set.
-- Rows: in any order.
SELECT text_hash
FROM packed_vectors_0

-- name: read
-- The vectors of a set up to a commit.
-- Parameters: $number (of the last commit).
-- Rows: in the order of their addition.
SELECT text_hash, number, vector
FROM packed_vectors_0
WHERE number <= $number

-- name: add_failures
-- Store the reasons of texts without a vector.
-- Parameters: $set_id.
INSERT INTO vector_failures
SELECT $set_id, text_hash, reason, now() AT TIME ZONE 'UTC'
FROM incoming

-- name: forget_failures
-- Delete the failures of texts that are tried again, or have a vector now.
-- Parameters: $set_id.
DELETE FROM vector_failures
WHERE set_id = $set_id AND text_hash IN (SELECT text_hash FROM incoming)

-- name: failures
-- The failures of a set.
-- Parameters: $set_id.
-- Rows: by time, then by hash.
SELECT text_hash, reason, failed_at
FROM vector_failures
WHERE set_id = $set_id
ORDER BY failed_at, text_hash

-- name: drop
-- Remove the vectors of a set.
DROP VIEW IF EXISTS vectors_0;

DROP TABLE IF EXISTS packed_vectors_0

-- name: delete_set
-- Delete a set.
-- Parameters: $set_id.
DELETE FROM vector_sets
WHERE set_id = $set_id

-- name: delete_commits
-- Delete the commits of a set.
-- Parameters: $set_id.
DELETE FROM vector_commits
WHERE set_id = $set_id

-- name: delete_failures
-- Delete the failures of a set.
-- Parameters: $set_id.
DELETE FROM vector_failures
WHERE set_id = $set_id

-- name: uncompressed
-- Write the following data uncompressed: compression takes most of the time and saves no space.
SET force_compression = 'uncompressed'

-- name: keep
-- Remove the vectors of all texts except some (Arrow kept: text_hash); returns their number.
DELETE FROM packed_vectors_0
WHERE text_hash NOT IN (SELECT text_hash FROM kept)

-- name: dropped
-- Store the number of removed vectors of each commit.
-- Parameters: $set_id.
UPDATE vector_commits
SET dropped = vectors - (
    SELECT count(*) FROM packed_vectors_0 WHERE packed_vectors_0.number = vector_commits.number
)
WHERE set_id = $set_id
