-- Quantiles (0, 5, 25, 50, 75, 95, 100 %) of a mining's scores and of the positives' ranks.
-- Parameters: $mining.
SELECT
    (
        SELECT quantile_disc(score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_negatives
        WHERE mining_key = $mining
    ) AS negative_score,
    (
        SELECT quantile_disc(positive_score, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_anchors
        WHERE mining_key = $mining
    ) AS positive_score,
    (
        SELECT quantile_disc(positive_rank, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        FROM mined_anchors
        WHERE mining_key = $mining
    ) AS positive_rank
