-- Append negatives (Arrow new_negatives, columns as the table's but for the key).
-- Parameters: $mining.
INSERT INTO mined_negatives
SELECT $mining, anchor_section_key, rank, negative_section_key, score
FROM new_negatives
