-- Which groups each class may, or must not, draw from.
-- Rows: by class and group.
SELECT class, class_group
FROM pairs
ORDER BY class, class_group
