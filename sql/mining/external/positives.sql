-- The lowest score of a positive that was given of an anchor.
-- Rows: in any order.
SELECT anchor, min(score) AS score
FROM external_entries
WHERE fate = 'positive'
GROUP BY anchor
