-- The columns of the row groups of a Parquet file, from its footer.
-- Parameters: $path (a glob of the one file).
-- Rows: any order.
SELECT row_group_id, path_in_schema, total_uncompressed_size, encodings
FROM parquet_metadata($path)
