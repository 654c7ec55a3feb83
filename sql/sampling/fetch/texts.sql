-- The texts of requests (Arrow: request, section_key, start, length; -1 for the whole section).
-- Rows: in any order, for sorting them took a third of the time; request says which is which.
SELECT
    requests.request,
    CASE
        WHEN requests.length < 0 THEN sections.text
        ELSE substring(sections.text, requests.start + 1, requests.length)
    END AS text
FROM requests
JOIN sections ON sections.section_key = requests.section_key
