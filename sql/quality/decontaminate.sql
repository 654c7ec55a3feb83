-- name: create
-- Make the table of n-grams, in a database of its own: which text has which.
CREATE TABLE grams (hash UBIGINT NOT NULL, number BIGINT NOT NULL)

-- name: add
-- Append n-grams (Arrow incoming: hash, number).
INSERT INTO grams
SELECT hash, number
FROM incoming

-- name: sort
-- Put every n-gram once, with the first text that has it, in ascending order.
CREATE TABLE known AS
SELECT row_number() OVER (ORDER BY hash) - 1 AS place, hash, min(number) AS number
FROM grams
GROUP BY hash
ORDER BY hash

-- name: count
-- How many n-grams there are.
SELECT count(*)
FROM known

-- name: slice
-- Some of the n-grams.
-- Parameters: $low and $high, the first place and the one after the last.
-- Rows: by hash.
SELECT hash, number
FROM known
WHERE place >= $low AND place < $high
ORDER BY place

-- name: forget
-- Forget what was marked at a version against an evaluation set, for what is found now.
-- Parameters: $version, $against.
DELETE FROM contaminations
WHERE version = $version AND against = $against AND action = 'mark'

-- name: store
-- Store what was found (Arrow incoming: record_key, matches, ngram, evaluation).
-- Parameters: $version, $against, $action, $settings (JSON).
INSERT INTO contaminations
SELECT $version, $against, record_key, matches, ngram, evaluation, $action, $settings
FROM incoming
