-- Stop words: those of the fts extension for English.
-- Parameters: $strip_accents, $lower.
INSERT INTO stop_words
SELECT DISTINCT plain(sw, $strip_accents, $lower)
FROM fts_main_stop_words.stopwords
