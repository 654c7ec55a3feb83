-- Forget all external scores.
DROP TABLE IF EXISTS external_scores
