-- How many anchors there are, how many different queries, and how many of these have a positive.
SELECT
    count(DISTINCT anchor_key) AS anchors,
    count(DISTINCT query_key) AS queries,
    count(DISTINCT query_key) FILTER (section_key IS NOT NULL) AS judged
FROM exported_judgements
