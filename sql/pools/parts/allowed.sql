-- Parts of the law where pairs are the only bins that a class may draw from.
WITH class_texts AS (
    SELECT pairs.class, sum(group_texts.texts) AS texts
    FROM pairs JOIN group_texts USING (bin) GROUP BY pairs.class
),

-- What can be drawn, text by text, with its kin if it has one only.
stock AS (
    SELECT pairs.class AS scope, text_hash, 1 AS texts, only_one(kin_key) AS kin
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (bin) GROUP BY pairs.class, text_hash
)
SELECT 1
