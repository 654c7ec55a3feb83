-- The part of a triplet pool that compares the terms of a strategy.

-- Every class of anchors with every group of negatives, once each, however many chunks they have.
WITH pairs AS (
    SELECT DISTINCT class, class_group FROM (SELECT DISTINCT class, anchor_values FROM anchors) AS anchor
    JOIN (SELECT DISTINCT class_group, negative_values FROM negatives) AS negative ON pair_condition
)
SELECT 1
