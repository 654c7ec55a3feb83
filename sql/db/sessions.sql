-- name: attach
-- A file in an instance of its own, to read. ATTACH takes no parameters: the path is written in.
-- Parameters: $path.
-- Rows: none.
ATTACH $path AS corpus (READ_ONLY)

-- name: use
-- Names in statements mean what is in that file.
USE corpus

-- name: names
-- Statements say what is in the schema _internal by its bare name, too.
SET search_path = 'main,_internal'

-- name: names_attached
-- The same of an attached file.
SET search_path = 'corpus.main,corpus._internal'

-- name: seal
-- From here on no statement reaches any other file.
SET enable_external_access = FALSE

-- name: begin
-- DuckDB 2.0 shows a progress bar even without a terminal; dates and times do not depend on the
-- machine.
SET enable_progress_bar = FALSE;

SET TimeZone = 'UTC'

-- name: no_lists
-- Joins pass bounds of their keys to scans, and no list.
SET dynamic_or_filter_threshold = 0

-- name: lists
-- Joins pass lists of their keys to scans, too, as by default in DuckDB.
SET dynamic_or_filter_threshold = 50

-- name: threads
-- How many threads statements run on.
SELECT current_setting('threads') AS threads
