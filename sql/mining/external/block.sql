-- The candidates of a block of anchors.
-- Parameters: $start, $stop.
-- Rows: by anchor, the best first, ties by document.
SELECT anchor, document, score, times
FROM external_ranked
WHERE anchor >= $start AND anchor < $stop
ORDER BY anchor, score DESC, document
