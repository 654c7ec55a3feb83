-- How many classes and groups an sql() strategy compares.
SELECT
    (SELECT count(DISTINCT class) FROM anchors) AS classes,
    (SELECT count(DISTINCT class_group) FROM negatives) AS class_groups
