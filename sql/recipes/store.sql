-- name: sources
-- Sources of a version, with which default recipes suit them.
-- Parameters: $version.
-- Rows: by name.
SELECT name, defaults
FROM sources
WHERE is_live(added_version, removed_version, $version)
ORDER BY name

-- name: brought
-- The same with the recipes that each brought (JSON, or NULL), its declared weight (or NULL), whether
-- something was said about its index, and whether it has the documents of others.
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
-- The recipes that other sources have, also sources of ingests that are not finished.
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
-- Whether any section is longer than a window: asked first, for it reads next to nothing.
-- Parameters: $max_tokens.
-- Rows: one, with found.
SELECT EXISTS (SELECT 1 FROM stored_sections WHERE token_count > $max_tokens) AS found

-- name: long_roles
-- The sources of which a split has sections longer than a window, each with the role of these:
-- context where both have some; rejected replies are none.
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
-- Whether any section is longer than a window, and so cut into several.
-- Rows: one, with found.
SELECT EXISTS (SELECT 1 FROM chunks WHERE window_index > 0) AS found
