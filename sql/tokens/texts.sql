-- name: without
-- The number of records without text, in splits at a version.
-- Parameters: $version, $splits (names), $sources (names, NULL for all).
SELECT count(*)
FROM records
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = records.record_key
WHERE
    is_live(records.added_version, records.removed_version, $version)
    AND list_contains($splits::VARCHAR[], served_in(splits.split))
    AND ($sources IS NULL OR list_contains($sources::VARCHAR[], sources.name))
    AND records.record_key NOT IN (SELECT record_key FROM stored_sections WHERE role <> 'rejected')

-- name: details
-- The ids of requested records (Arrow requests: place, record_key), the presets that accepted them
-- (code for a preset with a code score), and their metrics.
-- Parameters: $low and $high, the least and the greatest key.
-- Rows: by place.
WITH judged AS (
    SELECT
        judgements.record_key,
        arg_max(judgements.metrics, judgements.judgement_key) AS metrics,
        arg_max(acquisitions.quality, judgements.judgement_key) AS quality
    FROM judgements
    LEFT JOIN acquisitions ON acquisitions.acquisition_id = judgements.acquisition_id
    WHERE judgements.record_key BETWEEN $low AND $high AND judgements.outcome = 'accepted'
    GROUP BY judgements.record_key
)
SELECT
    requests.place,
    records.record_id,
    CASE
        WHEN json_type(judged.quality, '$.code_score') <> 'NULL' THEN 'code'
        ELSE judged.quality ->> '$.preset'
    END AS domain,
    judged.metrics
FROM requests
JOIN records ON records.record_key = requests.record_key
LEFT JOIN judged ON judged.record_key = requests.record_key
ORDER BY requests.place

-- name: judged
-- Numbers that change whenever the decisions of gates change.
SELECT count(*), count(metrics), count(DISTINCT measured), coalesce(max(judgement_key), 0)
FROM judgements
