-- The part of a triplet pool whose negatives all suit every anchor: one group, of which so many
-- rows tell well enough how many texts there are at the least.
WITH group_texts AS (
    SELECT 0::UBIGINT AS class_group, count(DISTINCT text_hash) AS texts
    FROM (SELECT text_hash FROM negatives LIMIT 50000)
)
SELECT 1
