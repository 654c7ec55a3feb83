-- The part of a triplet pool that compares the terms of a strategy.

-- Every class of anchors with every bin of negatives, once each, however many chunks they have.
WITH pairs AS (
    SELECT DISTINCT class, bin FROM (SELECT DISTINCT class, anchor_values FROM anchors) AS anchor
    JOIN (SELECT DISTINCT bin, negative_values FROM negatives) AS negative ON pair_condition
)
SELECT 1
