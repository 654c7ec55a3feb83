-- Sources of the newest version with their counts.
-- Rows: by name.
SELECT
    sources.name, sources.kind, sources.uri, sources.trust, sources.defaults,
    coalesce(source_counts.records, 0) AS records,
    coalesce(source_counts.sections, 0) AS sections,
    coalesce(source_counts.chunks, 0) AS chunks,
    coalesce(source_counts.tokens, 0) AS tokens
FROM sources
LEFT JOIN source_counts ON source_counts.source = sources.name
WHERE sources.removed_version IS NULL
ORDER BY sources.name
