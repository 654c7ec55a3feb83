-- Forget all splits and their settings.
DELETE FROM settings
WHERE name = 'splits';

DELETE FROM splits
