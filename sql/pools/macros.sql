-- name: state
-- Values that change with every fact: the newest version, recipes and sources.
-- Rows: by name and value.
SELECT max(version)::VARCHAR AS name, NULL AS value
FROM corpus_versions
UNION ALL
SELECT name, definition::VARCHAR
FROM recipes
UNION ALL
SELECT name, concat_ws(' ', defaults, recipes::VARCHAR, added_version, removed_version, documents_id)
FROM sources
ORDER BY ALL

-- name: facts
-- The facts that determine the macros of recipes: recipes, live sources, and labels.
-- Rows: by the first two columns.
SELECT 'recipe' AS what, name, definition::VARCHAR AS value, NULL AS recipes
FROM recipes
UNION ALL
SELECT 'source', name, defaults, recipes::VARCHAR
FROM sources
WHERE is_live(added_version, removed_version, _internal.version_at(NULL))
UNION ALL
SELECT 'labels', sources.name, if(bool_or(records.label NOT IN (0, 1)), 'graded', 'binary'), NULL
FROM records
JOIN sources ON sources.source_id = records.source_id
WHERE
    records.label IS NOT NULL
    AND is_live(records.added_version, records.removed_version, _internal.version_at(NULL))
GROUP BY sources.name
UNION ALL
SELECT 'documents', sources.name, documents.name, NULL
FROM sources
JOIN sources AS documents ON documents.source_id = sources.documents_id
WHERE is_live(sources.added_version, sources.removed_version, _internal.version_at(NULL))
UNION ALL
SELECT 'relabelled', '', NULL, NULL
WHERE EXISTS (SELECT 1 FROM labels)
ORDER BY ALL

-- name: names
-- The macros of recipes in the file.
-- Rows: in any order.
SELECT schema_name, function_name
FROM duckdb_functions()
WHERE schema_name IN ('pools', 'left_out') AND database_name = current_database()

-- name: printed
-- The parameters and the statement of a macro as DuckDB prints them. Nothing is bound or run.
-- Parameters: $text.
SELECT
    concat(
        ['of_source', 'of_split', 'at_version', 'at_least']::VARCHAR,
        [NULL, NULL, NULL, NULL]::VARCHAR[]::VARCHAR,
        json_deserialize_sql(json_serialize_sql($text))
    )

-- name: left_out
-- The anchors outside the pool, with texts and reasons. The caller replaces `of_recipe`.
-- Rows: ordered by version and id hash of the record.
SELECT
    records.record_id, substring(sections.text, chunks.start + 1, chunks.length) AS anchor,
    unused.reason
FROM of_recipe AS unused
JOIN chunks ON chunks.chunk_key = unused.chunk_key
JOIN sections ON sections.section_key = chunks.section_key
JOIN records ON records.record_key = unused.record_key
ORDER BY unused.added_version, unused.id_hash, unused.record_key, unused.chunk_key

-- name: of_some
-- The statement of a recipe for some sources: other sources have no rows.
-- Parameters: $sources.
SELECT * FROM of_recipe WHERE list_contains($sources, of_source)

-- name: either
-- Two such statements, joined.
SELECT * FROM (of_recipe)
UNION ALL
SELECT * FROM (of_others)

-- name: create
-- Store a macro. duckplets/pools/macros.py replaces `of_name` and `of_recipe` by its name and
-- statement, here and below.
-- Rows: none.
CREATE OR REPLACE MACRO of_name(
    of_source, of_split := 'train', at_version := NULL, at_least := 1
) AS TABLE
of_recipe

-- name: comment
-- The comment of a macro.
-- Parameters: $text.
-- Rows: none.
COMMENT ON MACRO TABLE of_name IS $text

-- name: drop
-- Remove a macro.
-- Rows: none.
DROP MACRO TABLE IF EXISTS of_name

-- name: newest
-- The number of the newest mining by a scorer; the caller replaces `of_scorer`.
(
    SELECT max(generation) FROM minings
    WHERE scorer = of_scorer AND source = of_source AND split = of_split
)
