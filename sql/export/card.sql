-- name: licences
-- Count the values of the column `license` that records have in meta.
-- Parameters: $sources (their names), $version.
-- Rows: by source, the most frequent licence first.
SELECT sources.name AS source, records.meta['license'] AS licence, count(*) AS records
FROM records
JOIN sources ON sources.source_id = records.source_id
WHERE
    list_contains($sources, sources.name)
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY ALL
ORDER BY source, records DESC, licence

-- name: personal_data
-- Count the personal data that gates found, in records of a version and in rejected rows. The
-- counts are from before the removal of the data.
-- Parameters: $sources (their names), $version.
-- Rows: by source and action of the gate (reject, redact, or NULL for none).
SELECT
    sources.name AS source,
    acquisitions.quality ->> '$.pii' AS gate,
    count(records.record_key) AS records,
    count(*) FILTER (judgements.rule = 'max_pii_density') AS rejected,
    count(*) FILTER (
        judgements.metrics.emails + judgements.metrics.phones + judgements.metrics.ssns
        + judgements.metrics.addresses + judgements.metrics.ipv6_addresses
        + judgements.metrics.ibans + judgements.metrics.cards > 0
        AND records.record_key IS NOT NULL
    ) AS with_personal_data
FROM judgements
JOIN sources ON sources.source_id = judgements.source_id
LEFT JOIN acquisitions ON acquisitions.acquisition_id = judgements.acquisition_id
LEFT JOIN records
    ON records.record_key = judgements.record_key
    AND is_live(records.added_version, records.removed_version, $version)
WHERE
    list_contains($sources, sources.name)
    AND (records.record_key IS NOT NULL OR judgements.rule = 'max_pii_density')
GROUP BY ALL
ORDER BY ALL
