-- What else is stored with requested records (Arrow requests: request, record_key).
-- Rows: in any order; request says which is which.
SELECT
    requests.request,
    records.meta,
    records.group_key,
    records.taxonomy,
    records.trust,
    records.created_at,
    records.updated_at
FROM requests
JOIN records ON records.record_key = requests.record_key
