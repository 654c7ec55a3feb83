-- How text becomes terms, by source (JSON); no row while all of them have the defaults.
SELECT value
FROM settings
WHERE name = 'terms'
