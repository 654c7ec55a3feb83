-- Definitions of the stored recipes.
-- Rows: by name.
SELECT definition
FROM recipes
ORDER BY name
