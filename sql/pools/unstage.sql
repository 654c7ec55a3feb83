-- Drop the table of pools/stage.
DROP TABLE staged_chunks
