-- Settings of the stored chunks (JSON); no row while they are the defaults.
SELECT value
FROM settings
WHERE name = 'chunking'
