-- name: blocks
-- Return ranges of keys with some megabytes of text, or with one record. Records of an unfinished
-- ingest count as published.
-- Parameters: $unpublished, $bytes and $records, the limits of a block.
-- Rows: by key.
WITH sizes AS (
    SELECT record_key, sum(strlen(text)) AS bytes
    FROM sections
    WHERE role <> 'rejected'
    GROUP BY record_key
),

live AS (
    SELECT
        records.record_key,
        sum(sizes.bytes) OVER (ORDER BY records.record_key) // $bytes AS megabytes,
        row_number() OVER (ORDER BY records.record_key) // $records AS thousands
    FROM records
    JOIN sizes ON sizes.record_key = records.record_key
    WHERE records.removed_version IS NULL OR records.removed_version = $unpublished
)

SELECT min(record_key) AS low, max(record_key) AS high
FROM live
GROUP BY megabytes, thousands
ORDER BY low

-- name: lines
-- Return records as JSON, each with a line break. Densities have the same formulas as in the gates.
-- U+0085, U+2028 and U+2029 are escaped, because some readers treat them as line ends. Searching
-- for them first takes a seventh of the time of replacing them.
-- Parameters: $unpublished, $low, $high (keys, both included).
-- Rows: by record_key.
WITH texts AS (
    SELECT record_key, string_agg(text, E'\n\n' ORDER BY position) AS text
    FROM sections
    WHERE record_key BETWEEN $low AND $high AND role <> 'rejected'
    GROUP BY record_key
),

settings AS (
    SELECT
        acquisition_id,
        quality ->> 'preset' AS domain,
        coalesce((quality -> 'pii_kinds')::VARCHAR[], []) AS kinds
    FROM acquisitions
),

judged AS (
    SELECT
        judgements.*, unnest(judgements.metrics), settings.domain,
        coalesce(settings.kinds, []) AS kinds
    FROM judgements
    LEFT JOIN settings ON settings.acquisition_id = judgements.acquisition_id
    WHERE judgements.record_key BETWEEN $low AND $high AND judgements.outcome = 'accepted'
),

objects AS (
    SELECT
        records.record_key,
        to_json({
            'text': texts.text,
            'meta': {
                'source': sources.name,
                'record_id': records.record_id,
                'file': judged.file,
                'row': CASE WHEN judged.acquisition_id IS NOT NULL THEN judged.row END,
                'domain': judged.domain,
                'sha256': lower(hex(judged.digest)),
                'bytes': judged.bytes,
                'characters': judged.characters,
                'words': judged.words,
                'lines': judged.lines,
                'license': judged.license,
                'pii_density': round((
                    judged.emails * list_contains(judged.kinds, 'email')::INT
                    + judged.phones * list_contains(judged.kinds, 'phone')::INT
                    + judged.ssns * list_contains(judged.kinds, 'ssn')::INT
                    + judged.addresses * list_contains(judged.kinds, 'ipv4')::INT
                    + judged.ipv6_addresses * list_contains(judged.kinds, 'ipv6')::INT
                    + judged.ibans * list_contains(judged.kinds, 'iban')::INT
                    + judged.cards * list_contains(judged.kinds, 'card')::INT
                ) / judged.words, 6),
                'profanity_density': round(judged.profanity / judged.words, 6),
                'copyright': judged.copyright,
                'language': judged.language,
                'language_probability': judged.language_probability,
                'domain_terms': judged.domain_terms,
                'domain_density': round(judged.domain_terms / judged.words, 6),
                'domain_categories': judged.domain_categories,
                'code_score': round(CASE WHEN judged.code_lines < 3 THEN 0 ELSE (
                    45 * judged.code_indented / judged.code_lines
                    + 30 * coalesce(judged.code_symbols / judged.code_characters, 0)
                    + 25 * coalesce(judged.code_keywords / judged.code_words, 0)
                ) / 100 END, 6),
                'own': judged.own
            }
        })::VARCHAR AS object
    FROM records
    JOIN texts ON texts.record_key = records.record_key
    JOIN sources ON sources.source_id = records.source_id
    LEFT JOIN judged ON judged.record_key = records.record_key
    WHERE
        records.record_key BETWEEN $low AND $high
        AND (records.removed_version IS NULL OR records.removed_version = $unpublished)
)

SELECT
    CASE
        WHEN
            contains(object, chr(133)) OR contains(object, chr(8232)) OR contains(object, chr(8233))
            THEN replace(
                replace(replace(object, chr(133), '\u0085'), chr(8232), '\u2028'),
                chr(8233), '\u2029'
            )
        ELSE object
    END || chr(10) AS line
FROM objects
ORDER BY record_key
