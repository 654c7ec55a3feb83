-- Stop words: those given (Arrow: word), in the form that the words of a text have.
-- Parameters: $strip_accents, $lower.
INSERT INTO stop_words
SELECT DISTINCT plain(word, $strip_accents, $lower)
FROM given
