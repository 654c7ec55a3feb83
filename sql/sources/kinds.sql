-- What each JSON line is: OBJECT, ARRAY, …, or NULL for what is no JSON.
-- `input` is an Arrow table with a column `line`, registered for the moment. A statement of its
-- own, because every JSON function in one keeps four times the longest line set aside.
-- Rows: in the order of the input.
SELECT TRY(json_type(line)) AS kind
FROM input
