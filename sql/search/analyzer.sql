-- name: shared
-- What all vocabularies of an instance in memory use, with the macros of migrations/corpus/0001_words.
CREATE TABLE english (word VARCHAR)

-- name: english
-- The English stop words of the fts extension come with an index of any table.
PRAGMA create_fts_index('english', 'word', 'word', stopwords = 'english')

-- name: tables
-- What a vocabulary is kept in, seen by its connection alone. A word that is a stop word, or whose
-- term is unknown, has the key -1; the empty word, which stands between two blanks, -2.
CREATE TEMP TABLE words (
    word VARCHAR NOT NULL,
    term_key INTEGER NOT NULL
);

CREATE TEMP TABLE terms (
    term VARCHAR NOT NULL,
    term_key INTEGER NOT NULL
);

CREATE TEMP TABLE stop_words (
    word VARCHAR NOT NULL
);

INSERT INTO words
VALUES ('', -2)

-- name: stemmed
-- Terms are stemmed, by the fts extension.
CREATE TEMP MACRO term_of(word, stemmer) AS stem(word, stemmer)

-- name: unstemmed
-- Terms are words as they are; the fts extension is not needed.
CREATE TEMP MACRO term_of(word, stemmer) AS word

-- name: size
-- How many terms there are.
SELECT count(*)
FROM terms

-- name: load_terms
-- Take over the terms of a stored index (Arrow: term, term_key).
INSERT INTO terms
SELECT term, term_key
FROM loaded

-- name: nothing
-- The key of the empty term, which some stemmers make of a word such as s.
SELECT term_key
FROM terms
WHERE term = ''

-- name: terms
-- The terms with keys from $low to below $high.
-- Parameters: $low, $high.
-- Rows: by key.
SELECT term_key, term
FROM terms
WHERE term_key >= $low AND term_key < $high
ORDER BY term_key

-- name: words
-- The words of texts (Arrow: text), empty ones included. What `ignore` matches becomes a blank, and
-- words stand between blanks; other white space separates as well, unless `ignore` matches all of it.
-- Parameters: $ignore, $all_space (whether it matches all white space), $pairs (whether to split
-- words of scripts without spaces).
-- Rows: in the order of the texts.
WITH spaced AS (
    SELECT
        CASE
            WHEN $all_space
                THEN regexp_replace(_internal.folded(text), $ignore, ' ', 'g')
            ELSE
                translate(
                    regexp_replace(_internal.folded(text), $ignore, ' ', 'g'),
                    chr(9) || chr(10) || chr(12) || chr(13),
                    '    '
                )
        END AS text
    FROM texts
)

SELECT CASE WHEN $pairs THEN _internal.split_words(text) ELSE string_split(text, ' ') END AS words
FROM spaced

-- name: stem
-- Stem those of different words (Arrow: place, word) that are met for the first time; stop words have
-- no term.
-- Parameters: $stemmer.
CREATE OR REPLACE TEMP TABLE fresh AS
SELECT
    place,
    word,
    CASE WHEN word NOT IN (SELECT word FROM stop_words) THEN term_of(word, $stemmer) END AS term
FROM found
ANTI JOIN words ON words.word = found.word

-- name: add_terms
-- Number the terms of fresh words that are new, in the order of the words' places.
-- Parameters: $next (the first free key).
INSERT INTO terms
SELECT fresh.term, $next + row_number() OVER (ORDER BY min(fresh.place)) - 1
FROM fresh
ANTI JOIN terms ON terms.term = fresh.term
WHERE fresh.term IS NOT NULL
GROUP BY fresh.term
ORDER BY min(fresh.place)

-- name: add_words
-- Keep the keys of fresh words.
INSERT INTO words
SELECT fresh.word, coalesce(terms.term_key, -1)
FROM fresh
LEFT JOIN terms ON terms.term = fresh.term

-- name: keys
-- The keys of different words (Arrow: place, word).
-- Rows: by place.
SELECT words.term_key
FROM found
JOIN words ON words.word = found.word
ORDER BY found.place

-- name: words_read
-- The words that were read, with the keys of their terms (NULL for stop words). A term that is no
-- word counts as one, so that its beginning is found.
-- Rows: by word.
SELECT word, nullif(term_key, -1) AS term_key
FROM words
WHERE term_key > -2
UNION ALL
SELECT terms.term AS word, terms.term_key
FROM terms
ANTI JOIN words ON words.word = terms.term
WHERE terms.term <> ''
ORDER BY word

-- name: english_words
-- Stop words: those of the fts extension for English.
INSERT INTO stop_words
SELECT DISTINCT _internal.folded(sw)
FROM fts_main_english.stopwords

-- name: stop_words
-- Stop words: those given (Arrow: word), in the form that the words of a text have.
INSERT INTO stop_words
SELECT DISTINCT _internal.folded(word)
FROM given
