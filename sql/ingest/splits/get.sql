-- Settings of the stored splits (JSON); no row before the first split.
SELECT value
FROM settings
WHERE name = 'splits'
