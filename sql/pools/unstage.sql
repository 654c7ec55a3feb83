-- Drop the table of pools/stage.
DROP TABLE members
