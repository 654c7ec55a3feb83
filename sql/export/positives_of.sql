-- The positives of requests (Arrow: place, mining_key, section_key).
-- Rows: by place and section_key.
SELECT requests.place, exported_positives.section_key
FROM requests
JOIN sections ON sections.section_key = requests.section_key
JOIN exported_positives ON exported_positives.record_key = sections.record_key
ORDER BY requests.place, exported_positives.section_key
