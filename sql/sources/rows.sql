-- Mapped rows in the shape ingest takes (ROW_SCHEMA), with the content's hash.
-- `mapped` is an Arrow table, registered for the moment: row, fault, id,
-- sections, date_text, date_by_form (NULL where no form was given or none fits), group_text,
-- taxonomy, meta, trust_text, created_text, updated_text (of no zone UTC), label_text and the label it stands for (NULL where no rule knows it), prefix (NULL where has_prefix but it is none), the reason (lack) for
-- which the row has no text, id or label, what it has instead (told), and the identity of what is not in
-- the sections, such as messages, or NULL.
-- The content is one text: COUNT of sections, ROLE SHA256-OF-TEXT of each, dDATE, gGROUP, tTAXONOMY,
-- mMETA, where every text inside the last three follows its length in bytes and a colon, and g-
-- stands for no group; and only where there are such, xIDENTITY, pSHA256-OF-PREFIX
-- and lLABEL. So no two contents share a serialisation. Section texts go in as digests
-- because copying them costs more than hashing (1.3 s more on 700 MB).
-- Record ids of sources without an id column depend on it: it must never change.
-- Rows: in the order of the input.
WITH typed AS (
    SELECT
        *,
        CASE
            WHEN year(date_by_form) BETWEEN 1 AND 9999 THEN date_by_form
            WHEN regexp_full_match(
                date_text,
                '\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?\s?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?'
            )
            AND NOT starts_with(date_text, '0000')
            THEN TRY_CAST(left(date_text, 10) AS DATE)
        END AS date,
        date_text IS NOT NULL AS has_date,
        TRY_CAST(trust_text AS DOUBLE) AS trust,
        trust_text IS NOT NULL AS has_trust,
        [
            CASE
                WHEN regexp_full_match(
                    m,
                    '\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?\s?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?'
                )
                AND NOT starts_with(m, '0000')
                THEN make_timestamp(
                    epoch_us(
                        TRY_CAST(
                            concat(
                                left(m, 10), ' ',
                                coalesce(nullif(substr(m, 12, 5), ''), '00:00'),
                                coalesce(
                                    nullif(
                                        replace(
                                            regexp_extract(m, '^.{16}(:\d\d([.,]\d+)?)', 1), ',', '.'
                                        ),
                                        ''
                                    ),
                                    ':00'
                                ),
                                coalesce(
                                    nullif(
                                        regexp_extract(substr(m, 11), '(Z|[+-]\d\d(:?\d\d)?)$', 1), ''
                                    ),
                                    'Z'
                                )
                            ) AS TIMESTAMPTZ
                        )
                    )
                )
            END
            FOR m IN [created_text, updated_text]
        ] AS moments,
        created_text IS NOT NULL AS has_created,
        updated_text IS NOT NULL AS has_updated
    FROM mapped
),
hashed AS (
    SELECT
        *,
        sha256(
            concat(
                len(sections), ' ',
                array_to_string([concat(s.role, ' ', sha256(s.text)) FOR s IN sections], ' '),
                'd', date,
                'g',
                CASE
                    WHEN group_text IS NULL THEN '-'
                    ELSE concat(strlen(group_text), ':', group_text)
                END,
                't', len(taxonomy), ' ',
                array_to_string([concat(strlen(t), ':', t) FOR t IN taxonomy], ''),
                'm', len(meta), ' ',
                array_to_string(
                    [
                        concat(strlen(m.key), ':', m.key, strlen(m.value), ':', m.value)
                        FOR m IN meta
                    ],
                    ''
                ),
                CASE WHEN "identity" IS NOT NULL THEN concat('x', "identity") END,
                CASE WHEN prefix IS NOT NULL THEN concat('p', sha256(prefix)) END,
                CASE WHEN label IS NOT NULL THEN concat('l', label) END
            )
        ) AS digest
    FROM typed
)
SELECT
    "row",
    coalesce(id, CASE WHEN fault IS NULL AND lack IS NULL THEN left(digest, 16) END) AS key,
    CAST('0x' || left(digest, 16) AS UBIGINT) AS content_hash,
    sections,
    date,
    group_text AS group_key,
    taxonomy,
    map_from_entries(meta) AS meta,
    trust,
    moments[1] AS created_at,
    moments[2] AS updated_at,
    CASE
        WHEN fault IS NOT NULL THEN fault
        WHEN lack IS NOT NULL THEN lack
        WHEN has_created AND moments[1] IS NULL THEN 'unreadable created_at'
        WHEN has_updated AND moments[2] IS NULL THEN 'unreadable updated_at'
        WHEN has_trust AND (trust IS NULL OR NOT trust BETWEEN 0 AND 1) THEN 'trust outside 0..1'
        WHEN has_prefix AND prefix IS NULL THEN 'unreadable prefix'
        WHEN label_text IS NOT NULL AND label IS NULL THEN 'unreadable label'
        -- The last, for a record may come in without its date.
        WHEN has_date AND date IS NULL THEN 'unreadable date'
    END AS skip,
    CASE
        WHEN fault IS NOT NULL THEN NULL
        WHEN lack IS NOT NULL THEN told
        WHEN has_created AND moments[1] IS NULL THEN created_text
        WHEN has_updated AND moments[2] IS NULL THEN updated_text
        WHEN has_trust AND (trust IS NULL OR NOT trust BETWEEN 0 AND 1) THEN trust_text
        WHEN has_prefix AND prefix IS NULL THEN NULL
        WHEN label_text IS NOT NULL AND label IS NULL THEN label_text
        WHEN has_date AND date IS NULL THEN date_text
    END AS value
FROM hashed
