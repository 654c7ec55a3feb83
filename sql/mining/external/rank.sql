-- The candidates among the external scores, by anchor, so that a block of anchors is one stretch of
-- rows. Of a candidate that was given several times the best score counts.
CREATE OR REPLACE TEMP TABLE external_ranked AS
SELECT anchor, document, max(score) AS score, count(*) AS times
FROM external_entries
WHERE fate = 'candidate'
GROUP BY anchor, document
ORDER BY anchor
