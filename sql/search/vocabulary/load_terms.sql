-- Take over the terms of a stored index (Arrow: term, term_key).
INSERT INTO terms
SELECT term, term_key
FROM loaded
