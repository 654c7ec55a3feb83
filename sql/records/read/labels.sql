-- What requested records are called and where they belong (Arrow requests: request, record_key).
-- Rows: in any order; request says which is which.
SELECT
    requests.request,
    records.record_id,
    sources.name AS source,
    splits.split,
    records.date
FROM requests
JOIN records ON records.record_key = requests.record_key
JOIN sources ON sources.source_id = records.source_id
LEFT JOIN splits ON splits.record_key = requests.record_key
