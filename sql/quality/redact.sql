-- name: candidates
-- Texts in which something looks like personal data.
-- Parameters: $of_email, $of_phone, $of_ssn, $of_number, $of_card (regular expressions).
-- Rows: of `quality_texts` (place, text), in any order.
SELECT place, text
FROM quality_texts
WHERE
    (contains(text, '@') AND regexp_matches(text, $of_email))
    OR regexp_matches(text, $of_phone)
    OR regexp_matches(text, $of_ssn)
    OR regexp_matches(text, $of_number)
    OR regexp_matches(text, $of_card)
