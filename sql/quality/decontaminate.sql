-- name: create
-- Make the table of n-grams, in a database of its own: which text has which.
CREATE TABLE grams (hash UBIGINT NOT NULL, number BIGINT NOT NULL)

-- name: add
-- Append n-grams (Arrow incoming: hash, number).
INSERT INTO grams
SELECT hash, number
FROM incoming

-- name: sort
-- Put every n-gram once, with the first text that has it.
CREATE TABLE known AS
SELECT hash, min(number) AS number
FROM grams
GROUP BY hash

-- name: count
-- How many n-grams there are.
SELECT count(*)
FROM known

-- name: matches
-- How many n-grams of records (Arrow incoming: text, gram, hash) are known, and the first of them.
-- Rows: one for each text that has any, in any order.
SELECT
    incoming.text,
    count(*) AS matches,
    min(incoming.gram) AS gram,
    arg_min(known.number, incoming.gram) AS number
FROM incoming
JOIN known ON known.hash = incoming.hash
GROUP BY incoming.text

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
