-- name: roles
-- Count the sections and tokens of every source by split and role.
-- Rows: by source, splits in their usual order, role.
SELECT sources.name AS source, counted.split, counted.role, counted.sections, counted.tokens
FROM (
    SELECT
        records.source_id, splits.split, sections.role,
        count(*) AS sections, sum(sections.token_count)::BIGINT AS tokens
    FROM stored_sections AS sections
    JOIN records ON records.record_key = sections.record_key
    LEFT JOIN splits ON splits.record_key = sections.record_key
    WHERE records.removed_version IS NULL
    GROUP BY records.source_id, splits.split, sections.role
) AS counted
JOIN sources ON sources.source_id = counted.source_id
ORDER BY
    sources.name, list_position(['train', 'validation', 'test'], counted.split), counted.role

-- name: lengths
-- Count the sections of every source by their tokens, between powers of two.
-- Rows: by source, the shortest first.
SELECT
    source,
    1::BIGINT << power AS at_least,
    (2::BIGINT << power) - 1 AS at_most,
    count(*) AS sections,
    sum(tokens)::BIGINT AS tokens
FROM (
    SELECT
        sources.name AS source,
        sections.token_count AS tokens,
        CASE WHEN sections.token_count > 0 THEN floor(log2(sections.token_count)) ELSE 0 END::INTEGER
            AS power
    FROM stored_sections AS sections
    JOIN records ON records.record_key = sections.record_key
    JOIN sources ON sources.source_id = records.source_id
    WHERE records.removed_version IS NULL
)
GROUP BY source, power
ORDER BY source, power

-- name: left_out
-- Count the rows that ingests skipped, and the dropped sections, by reason.
-- Rows: by version and source, the most frequent reason first.
SELECT version, source, what, entry.key AS reason, entry.value::BIGINT AS "rows"
FROM (
    SELECT version, source, what, from_json(counts, '{"a": "MAP(VARCHAR, BIGINT)"}').a AS counts
    FROM (
        SELECT version, source, 'row' AS what, json_object('a', report -> '$.reasons') AS counts
        FROM corpus_versions
        UNION ALL
        SELECT version, source, 'section', json_object('a', report -> '$.dropped_sections')
        FROM corpus_versions
    )
) AS reports, unnest(map_entries(counts)) AS entries (entry)
ORDER BY version, source, what, "rows" DESC, reason

-- name: quarantined
-- Count the quarantined rows by reason.
-- Rows: by source, the most frequent reason first.
SELECT source, reason, count(*) AS "rows"
FROM quarantine
GROUP BY source, reason
ORDER BY source, "rows" DESC, reason
