-- name: create
-- Make the table of n-grams, in a database of its own: which text of which set has which.
CREATE TABLE grams (hash UBIGINT NOT NULL, number BIGINT NOT NULL, evaluation BIGINT NOT NULL)

-- name: add
-- Append n-grams (Arrow incoming: hash, number, evaluation).
INSERT INTO grams
SELECT hash, number, evaluation
FROM incoming

-- name: sort
-- Put every n-gram of a set once, with the first text that has it.
CREATE TABLE known AS
SELECT hash, evaluation, min(number) AS number
FROM grams
GROUP BY hash, evaluation

-- name: count
-- How many n-grams there are.
SELECT count(DISTINCT hash)
FROM known

-- name: matches
-- How many n-grams of records (Arrow incoming: text, gram, hash) are known, and the first of them.
-- Rows: one for each text that has any, in any order.
SELECT
    incoming.text,
    count(DISTINCT incoming.gram) AS matches,
    min(incoming.gram) AS gram,
    min({'gram': incoming.gram, 'number': known.number}).number AS number
FROM incoming
JOIN known ON known.hash = incoming.hash
GROUP BY incoming.text

-- name: by_set
-- How many records and n-grams of records (Arrow incoming: text, gram, hash) each set has.
-- Rows: one for each set that has any, in any order.
SELECT
    known.evaluation, count(DISTINCT incoming.text) AS contaminated, count(*) AS matches
FROM incoming
JOIN known ON known.hash = incoming.hash
GROUP BY known.evaluation

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
