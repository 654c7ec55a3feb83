-- Store a recipe.
-- Parameters: $name, $kind (triplet or text), $definition (JSON).
INSERT INTO recipes
VALUES ($name, $kind, $definition)
