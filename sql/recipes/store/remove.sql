-- Remove a stored recipe.
-- Parameters: $name.
DELETE FROM recipes
WHERE name = $name
