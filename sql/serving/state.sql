-- The state that a snapshot must have; it costs the same at any size.
-- Parameters: $version (of the corpus; the history ends there).
SELECT
    (
        SELECT coalesce(
            md5(
                string_agg(
                    version || ' ' || committed_at || ' ' || what || ' ' || coalesce(source, ''),
                    chr(31) ORDER BY version
                )
            ),
            ''
        )
        FROM corpus_versions
        WHERE version <= $version
    ) AS history,
    (
        SELECT coalesce(md5(string_agg(name || ' ' || value, chr(31) ORDER BY name)), '')
        FROM settings
        WHERE name IN ('chunking', 'splits', 'rearranged')
    ) AS settings
