-- Terms are words as they are; the fts extension is not needed.
CREATE MACRO term_of(word, stemmer) AS word
