-- A file of JSON lines is written whole from the records, so nothing is noted of it.
DROP TABLE json_lines;
DROP TABLE json_lines_files;
