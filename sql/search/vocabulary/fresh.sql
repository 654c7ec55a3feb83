-- The keys of fresh words.
SELECT fresh.place, coalesce(terms.term_key, -1) AS term_key
FROM fresh
LEFT JOIN terms ON terms.term = fresh.term
