-- Note a new run.
-- Parameters: $run, $kind, $corpus_version, $order_version, $settings, $fingerprint (JSON).
INSERT INTO runs
VALUES (
    $run, $kind, $corpus_version, $order_version, $settings, $fingerprint, now()::TIMESTAMP
)
