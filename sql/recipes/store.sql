-- name: sources
-- Sources of a version, with the kind of their default recipes.
-- Parameters: $version.
-- Rows: by name.
SELECT name, defaults
FROM sources
WHERE is_live(added_version, removed_version, $version)
ORDER BY name

-- name: offered
-- Sources of a version with their defaults, own recipes (JSON, or NULL) and declared weight (or NULL).
-- The last columns say whether they have index controls, and the documents of other sources.
-- Parameters: $version.
-- Rows: by name.
SELECT
    name, defaults, recipes, weight,
    source_id IN (SELECT source_id FROM index_controls) AS controlled,
    source_id IN (
        SELECT documents_id
        FROM sources
        WHERE
            documents_id IS NOT NULL
            AND is_live(added_version, removed_version, $version)
    ) AS are_documents
FROM sources
WHERE is_live(added_version, removed_version, $version)
ORDER BY name

-- name: of_others
-- The recipes of other sources, with sources of unfinished ingests.
-- Parameters: $name (of the source).
-- Rows: by name.
SELECT name, defaults, recipes
FROM sources
WHERE
    name <> $name AND recipes IS NOT NULL
    AND (removed_version IS NULL OR added_version = removed_version)
ORDER BY name

-- name: add
-- Store a recipe.
-- Parameters: $name, $kind (triplet or text), $definition (JSON).
INSERT INTO recipes
VALUES ($name, $kind, $definition)

-- name: remove
-- Remove a stored recipe.
-- Parameters: $name.
DELETE FROM recipes
WHERE name = $name

-- name: list
-- The stored recipes.
-- Rows: by name.
SELECT name, definition
FROM recipes
ORDER BY name

-- name: has_longer
-- Whether any section is longer than a window. It runs first, since it reads little.
-- Parameters: $max_tokens.
-- Rows: one, with found.
SELECT EXISTS (SELECT 1 FROM stored_sections WHERE token_count > $max_tokens) AS found

-- name: long_roles
-- The sources with sections longer than a window in a split, and the role of these sections. If both
-- roles have some, it is context. Rejected replies do not count.
-- Parameters: $split, $version, $max_tokens.
-- Rows: by source.
SELECT sources.name AS source, max(sections.role) AS role
FROM stored_sections AS sections
JOIN records ON records.record_key = sections.record_key
JOIN sources ON sources.source_id = records.source_id
JOIN splits ON splits.record_key = sections.record_key
WHERE
    sections.token_count > $max_tokens
    AND sections.role <> 'rejected'
    AND in_split(splits.split, $split)
    AND is_live(records.added_version, records.removed_version, $version)
GROUP BY sources.name
ORDER BY sources.name

-- name: long_sections
-- Whether any section has several windows.
-- Rows: one, with found.
SELECT EXISTS (SELECT 1 FROM chunks WHERE window_index > 0) AS found
