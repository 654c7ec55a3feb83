-- Note what a run is opened with from now on.
-- Parameters: $run, $settings, $fingerprint (JSON).
UPDATE runs
SET settings = $settings, fingerprint = $fingerprint
WHERE run = $run
