-- Lines that should hold one JSON object each, judged; blank ones are left out.
-- `input` is an Arrow table of (row, fault, modified, line, kind), registered for the moment.
-- Rows: in the order of the input.
SELECT
    "row",
    modified,
    CASE WHEN kind = 'OBJECT' THEN line END AS document,
    CASE
        WHEN fault IS NOT NULL THEN fault
        WHEN kind IS NULL THEN 'invalid JSON'
        WHEN kind <> 'OBJECT' THEN 'not an object'
    END AS fault
FROM input
WHERE fault IS NOT NULL OR kind IS NOT NULL OR regexp_matches(line, '[^ \t\r\n]')
