-- Keys of mapped rows, and the hashes of their contents.
-- `mapped` is an Arrow table, registered for the moment: id, sections, date, group_key, taxonomy,
-- meta, identity, prefix, label, has_key. The identity is of messages, or NULL. has_key tells
-- whether the content is a key.
-- The content is one text: COUNT of sections, ROLE SHA256-OF-TEXT of each, dDATE, gGROUP, tTAXONOMY,
-- mMETA. Each text in the last three follows its length in bytes and a colon; g- means no group.
-- If they exist, xIDENTITY, pSHA256-OF-PREFIX and lLABEL come last. No two contents share a text.
-- Section texts are digests because copying them costs more than hashing (1.3 s more on 700 MB).
-- Record ids of sources without an id column depend on this text: it must never change.
-- Rows: in the order of the input.
WITH hashed AS (
    SELECT
        id,
        has_key,
        sha256(
            concat(
                len(sections), ' ',
                array_to_string([concat(s.role, ' ', sha256(s.text)) FOR s IN sections], ' '),
                'd', date,
                'g',
                CASE
                    WHEN group_key IS NULL THEN '-'
                    ELSE concat(strlen(group_key), ':', group_key)
                END,
                't', len(taxonomy), ' ',
                array_to_string([concat(strlen(t), ':', t) FOR t IN taxonomy], ''),
                'm', cardinality(meta), ' ',
                array_to_string(
                    [
                        concat(strlen(m.key), ':', m.key, strlen(m.value), ':', m.value)
                        FOR m IN map_entries(meta)
                    ],
                    ''
                ),
                CASE WHEN "identity" IS NOT NULL THEN concat('x', "identity") END,
                CASE WHEN prefix IS NOT NULL THEN concat('p', sha256(prefix)) END,
                CASE WHEN label IS NOT NULL THEN concat('l', label) END
            )
        ) AS digest
    FROM mapped
)
SELECT
    coalesce(id, CASE WHEN has_key THEN left(digest, 16) END) AS key,
    CAST('0x' || left(digest, 16) AS UBIGINT) AS content_hash
FROM hashed
