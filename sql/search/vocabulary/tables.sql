-- What a vocabulary is kept in: an instance in memory. A word that is a stop word, or whose term is
-- unknown, has the key -1; the empty word, which stands between two blanks, -2.
CREATE TABLE words (
    word VARCHAR NOT NULL,
    term_key INTEGER NOT NULL
);

CREATE TABLE terms (
    term VARCHAR NOT NULL,
    term_key INTEGER NOT NULL
);

CREATE TABLE stop_words (
    word VARCHAR NOT NULL
);

CREATE MACRO plain(text, strip_accents, lower) AS
    CASE
        WHEN lower AND strip_accents THEN lower(strip_accents(text))
        WHEN lower THEN lower(text)
        WHEN strip_accents THEN strip_accents(text)
        ELSE text
    END;

INSERT INTO words
VALUES ('', -2)
