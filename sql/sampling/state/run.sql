-- One run.
-- Parameters: $run.
SELECT kind, corpus_version, order_version, settings, fingerprint
FROM runs
WHERE run = $run
