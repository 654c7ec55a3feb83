-- Append new_originals (Arrow): texts before preprocessing.
INSERT INTO section_originals
SELECT record_key, position, role, heading, original
FROM new_originals
