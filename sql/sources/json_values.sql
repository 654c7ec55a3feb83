-- The values of a .json file, as JSON text: elements of its array, or objects one after another.
-- Parameters: $path, $format ('array' or 'unstructured'), $largest (bytes of the largest value).
-- Rows: in the order of the file.
SELECT json AS line
FROM read_json_objects($path, format = $format, maximum_object_size = $largest)
