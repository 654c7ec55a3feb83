-- How many of the external scores are what.
SELECT fate::VARCHAR AS fate, count(*) AS times
FROM external_entries
GROUP BY fate
