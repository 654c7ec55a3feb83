-- Number the terms of fresh words that are new, in the order of the words' places.
-- Parameters: $next (the first free key).
INSERT INTO terms
SELECT fresh.term, $next + row_number() OVER (ORDER BY min(fresh.place)) - 1
FROM fresh
ANTI JOIN terms ON terms.term = fresh.term
WHERE fresh.term IS NOT NULL
GROUP BY fresh.term
ORDER BY min(fresh.place)
