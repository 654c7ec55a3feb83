-- Stem different words that are met for the first time (Arrow: place, word); stop words have no term.
-- Parameters: $stemmer.
CREATE OR REPLACE TABLE fresh AS
SELECT
    place,
    word,
    CASE WHEN word NOT IN (SELECT word FROM stop_words) THEN term_of(word, $stemmer) END AS term
FROM found
