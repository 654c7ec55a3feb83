-- What identifies the negatives of a mining: their number, and two sums over all of them.
-- Parameters: $mining.
SELECT
    count(*) AS negatives,
    coalesce(sum(
        (anchor_section_key * 1000003 + rank)::HUGEINT
        * (negative_section_key % 998244353 + 1)
    ), 0) AS pairs,
    coalesce(sum(
        round(score * 1048576)::HUGEINT * ((anchor_section_key * 31 + rank) % 1000003 + 1)
    ), 0) AS scores
FROM mined_negatives
WHERE mining_key = $mining
