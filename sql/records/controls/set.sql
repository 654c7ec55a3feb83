-- Say how an index lists the records of a source.
-- Parameters: $source_id, $size (NULL for all), $size_mode, $weight, $seed.
INSERT INTO index_controls (source_id, size, size_mode, weight, seed)
VALUES ($source_id, $size, $size_mode, $weight, $seed)
