-- name: shared
-- The table that all vocabularies of an instance share, besides the macros of 0001_words.sql.
CREATE TABLE english (word VARCHAR)

-- name: english
-- The English stop words of the fts extension come with an index of any table.
PRAGMA create_fts_index('english', 'word', 'word', stopwords = 'english')

-- name: tables
-- The tables of a vocabulary, which its connection alone sees. The key of a stop word, or of a word
-- with an unknown term, is -1. The key of the empty word between two blanks is -2.
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
-- The fts extension stems terms.
CREATE TEMP MACRO term_of(word, stemmer) AS stem(word, stemmer)

-- name: unstemmed
-- Terms are the words themselves, without the fts extension.
CREATE TEMP MACRO term_of(word, stemmer) AS word

-- name: size
-- The number of terms.
SELECT count(*)
FROM terms

-- name: load_terms
-- Load the terms of a stored index (Arrow loaded: term, term_key).
INSERT INTO terms
SELECT term, term_key
FROM loaded

-- name: nothing
-- The key of the empty term: some stemmers turn a word such as s into it.
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
-- The words of texts (Arrow texts: text), empty ones included. A match of `ignore` becomes a blank, and
-- blanks separate words. Other white space separates too, unless `ignore` matches all of it.
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
-- Stem the new ones among distinct words (Arrow found: place, word); stop words have no term.
-- Parameters: $stemmer.
CREATE OR REPLACE TEMP TABLE fresh AS
SELECT
    place,
    word,
    CASE WHEN word NOT IN (SELECT word FROM stop_words) THEN term_of(word, $stemmer) END AS term
FROM found
ANTI JOIN words ON words.word = found.word

-- name: add_terms
-- Number the new terms of new words, in the order of the words' places.
-- Parameters: $next (the first free key).
INSERT INTO terms
SELECT fresh.term, $next + row_number() OVER (ORDER BY min(fresh.place)) - 1
FROM fresh
ANTI JOIN terms ON terms.term = fresh.term
WHERE fresh.term IS NOT NULL
GROUP BY fresh.term
ORDER BY min(fresh.place)

-- name: add_words
-- Store the keys of new words.
INSERT INTO words
SELECT fresh.word, coalesce(terms.term_key, -1)
FROM fresh
LEFT JOIN terms ON terms.term = fresh.term

-- name: keys
-- The keys of distinct words (Arrow found: place, word).
-- Rows: by place.
SELECT words.term_key
FROM found
JOIN words ON words.word = found.word
ORDER BY found.place

-- name: words_read
-- The words that were read, with the keys of their terms (NULL for stop words). A term that is no
-- word counts as a word too, so that a search finds it by its beginning.
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
-- Use the English stop words of the fts extension.
INSERT INTO stop_words
SELECT DISTINCT _internal.folded(sw)
FROM fts_main_english.stopwords

-- name: stop_words
-- Use some stop words (Arrow given: word), in the form that the words of a text have.
INSERT INTO stop_words
SELECT DISTINCT _internal.folded(word)
FROM given
