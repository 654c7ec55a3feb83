-- The dates that texts spell in a form, in years from 1 to 9999.
-- `input` is an Arrow table of (date_text), registered for the moment.
-- Parameters: $form.
-- Rows: in the order of the input.
SELECT CASE WHEN year(day) BETWEEN 1 AND 9999 THEN day END AS day
FROM (SELECT CAST(try_strptime(trim(date_text), $form) AS DATE) AS day FROM input)
