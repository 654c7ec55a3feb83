-- name: candidates
-- Texts in which something looks like personal data.
-- Parameters: $of_email, $of_phone, $of_ssn, $of_number, $of_card, $of_emphasis (regular
--     expressions).
-- Rows: of `quality_texts` (place, text), in any order.
WITH plain AS (
    SELECT
        place,
        text,
        CASE WHEN contains(text, '_') THEN regexp_replace(text, $of_emphasis, '=', 'g') ELSE text END
            AS numeric
    FROM quality_texts
)

SELECT place, text
FROM plain
WHERE
    (contains(text, '@') AND regexp_matches(text, $of_email))
    OR regexp_matches(numeric, $of_phone)
    OR regexp_matches(numeric, $of_ssn)
    OR regexp_matches(numeric, $of_number)
    OR regexp_matches(numeric, $of_card)
