-- The words of texts (Arrow: text), empty ones included. What `ignore` matches becomes a blank, and
-- words stand between blanks; other white space separates as well, unless `ignore` matches all of it.
-- Parameters: $ignore, $all_space (whether it matches all white space), $strip_accents, $lower.
-- Rows: in the order of the texts.
SELECT string_split(
    CASE
        WHEN $all_space
            THEN regexp_replace(plain(text, $strip_accents, $lower), $ignore, ' ', 'g')
        ELSE
            translate(
                regexp_replace(plain(text, $strip_accents, $lower), $ignore, ' ', 'g'),
                chr(9) || chr(10) || chr(12) || chr(13),
                '    '
            )
    END,
    ' '
) AS words
FROM texts
