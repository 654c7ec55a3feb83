-- How many anchors there are, how many different queries, and how many of these have a positive.
SELECT
    (SELECT count(*) FROM exported_queries) AS anchors,
    (SELECT count(DISTINCT query_key) FROM exported_queries) AS queries,
    (SELECT count(DISTINCT query_key) FROM exported_judgements) AS judged
