-- Parts of a triplet pool whose strategy names the only groups an anchor may draw from.
WITH class_texts AS (
    SELECT pairs.class, sum(group_texts.texts) AS texts
    FROM pairs
    JOIN group_texts USING (class_group)
    GROUP BY pairs.class
),

doubtful_negatives AS (
    SELECT classes.class, negatives.record_key, negatives.text_hash
    FROM (SELECT DISTINCT class FROM doubts) AS classes
    JOIN pairs USING (class)
    JOIN negatives USING (class_group)
)
SELECT 1
