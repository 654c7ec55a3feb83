-- name: create
-- Create the table of n-grams, in a separate database: hash, number of the text, evaluation set.
CREATE TABLE grams (hash UBIGINT NOT NULL, number BIGINT NOT NULL, evaluation BIGINT NOT NULL)

-- name: add
-- Append n-grams (Arrow incoming: hash, number, evaluation).
INSERT INTO grams
SELECT hash, number, evaluation
FROM incoming

-- name: sort
-- Store every n-gram of a set once, with the first text that has it.
CREATE TABLE known AS
SELECT hash, evaluation, min(number) AS number
FROM grams
GROUP BY hash, evaluation

-- name: count
-- The number of n-grams.
SELECT count(DISTINCT hash)
FROM known

-- name: matches
-- The number of known n-grams of each record (Arrow incoming: text, gram, hash), and the first one.
-- Rows: one for each text with a known n-gram, in any order.
SELECT
    incoming.text,
    count(DISTINCT incoming.gram) AS matches,
    min(incoming.gram) AS gram,
    min({'gram': incoming.gram, 'number': known.number}).number AS number
FROM incoming
JOIN known ON known.hash = incoming.hash
GROUP BY incoming.text

-- name: by_set
-- The number of matching records and n-grams (Arrow incoming: text, gram, hash) of each set.
-- Rows: one for each set with a match, in any order.
SELECT
    known.evaluation, count(DISTINCT incoming.text) AS contaminated, count(*) AS matches
FROM incoming
JOIN known ON known.hash = incoming.hash
GROUP BY known.evaluation

-- name: forget
-- Delete the marks of a version against an evaluation set, before new ones are stored.
-- Parameters: $version, $against.
DELETE FROM contaminations
WHERE version = $version AND against = $against AND action = 'mark'

-- name: store
-- Store contaminated records (Arrow incoming: record_key, matches, ngram, evaluation).
-- Parameters: $version, $against, $action, $settings (JSON).
INSERT INTO contaminations
SELECT $version, $against, record_key, matches, ngram, evaluation, $action, $settings
FROM incoming
