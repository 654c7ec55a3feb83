-- Terms are stemmed, by the fts extension.
CREATE MACRO term_of(word, stemmer) AS stem(word, stemmer)
