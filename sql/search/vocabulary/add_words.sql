-- Keep the keys of fresh words.
INSERT INTO words
SELECT fresh.word, coalesce(terms.term_key, -1)
FROM fresh
LEFT JOIN terms ON terms.term = fresh.term
