-- The key of the empty term, which some stemmers make of a word such as s.
SELECT term_key
FROM terms
WHERE term = ''
