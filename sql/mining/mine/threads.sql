-- How many threads this instance may use.
SELECT current_setting('threads')::INTEGER
