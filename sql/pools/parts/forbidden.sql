-- Parts of the law where pairs are the bins that a class must not draw from.
WITH class_texts AS (
    SELECT class, (SELECT sum(texts) FROM group_texts) - coalesce(sum(group_texts.texts), 0) AS texts
    FROM (SELECT DISTINCT class FROM anchors) LEFT JOIN pairs USING (class)
    LEFT JOIN group_texts USING (bin) GROUP BY class
),

-- Texts of forbidden bins, and what is left of them elsewhere: sums tell if it is of one kin.
paired AS (
    SELECT pairs.class, text_hash, count(*) AS chunks, sum(kin_key) AS kins,
        sum(kin_key * kin_key::HUGEINT) AS squares
    FROM (SELECT DISTINCT class FROM doubts) JOIN pairs USING (class)
    JOIN negatives USING (bin) GROUP BY pairs.class, text_hash
),
whole AS (
    SELECT text_hash, count(*) AS chunks, sum(kin_key) AS kins,
        sum(kin_key * kin_key::HUGEINT) AS squares
    FROM negatives JOIN (SELECT DISTINCT text_hash FROM paired) AS taken USING (text_hash) GROUP BY ALL
),
remaining AS (
    SELECT class, text_hash, whole.chunks - paired.chunks AS chunks,
        whole.kins - paired.kins AS kins, whole.squares - paired.squares AS squares
    FROM paired JOIN whole USING (text_hash)
),

-- What can be drawn: by all (scope 0), less what a class is paired with, plus what remains of that.
stock AS (
    SELECT 0::UBIGINT AS scope, text_hash, 1 AS texts, kin FROM texts
    UNION ALL SELECT class, text_hash, -1, texts.kin FROM paired JOIN texts USING (text_hash)
    UNION ALL SELECT class, text_hash, 1, only_of_sums(chunks, kins, squares)
    FROM remaining WHERE chunks > 0
)
SELECT 1
