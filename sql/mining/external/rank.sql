-- The candidates among the given scores, by anchor, so that a block of anchors is one stretch of
-- rows. Of a candidate that was given several times the best score counts.
CREATE OR REPLACE TEMP TABLE given_ranked AS
SELECT anchor, document, max(score) AS score, count(*) AS given
FROM given_entries
WHERE fate = 'candidate'
GROUP BY anchor, document
ORDER BY anchor
