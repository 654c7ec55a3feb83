-- Forget all sections and originals, to store them anew.
DELETE FROM sections;

DELETE FROM section_originals
