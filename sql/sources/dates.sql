-- The dates that texts spell in a form.
-- `input` is an Arrow table of (date_text), registered for the moment.
-- Parameters: $form.
-- Rows: in the order of the input.
SELECT CAST(try_strptime(trim(date_text), $form) AS DATE) AS day
FROM input
