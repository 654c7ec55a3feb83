-- Forget all given scores.
DROP TABLE IF EXISTS given_scores
