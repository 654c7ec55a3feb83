-- Records added by a version that was never committed, but for those of unfinished ingests.
-- Rows: one, their number.
SELECT count(*)
FROM records
WHERE
    added_version NOT IN (SELECT version FROM corpus_versions)
    AND (
        added_version <> 9223372036854775807  -- marks what is not yet published
        OR source_id NOT IN (SELECT source_id FROM unfinished_ingests)
    )
