-- How many terms there are.
SELECT count(*)
FROM terms
