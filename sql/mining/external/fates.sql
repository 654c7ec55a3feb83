-- How many of the given scores are what.
SELECT fate::VARCHAR AS fate, count(*) AS given
FROM given_entries
GROUP BY fate
