-- Keys of mapped rows, and the hashes of their contents.
-- `mapped` is an Arrow table, registered for the moment: id, sections, date, group_key, taxonomy,
-- meta, the identity of what is not in the sections, such as messages, or NULL, prefix, label, and
-- has_key, whether the content is a key.
-- The content is one text: COUNT of sections, ROLE SHA256-OF-TEXT of each, dDATE, gGROUP, tTAXONOMY,
-- mMETA, where every text inside the last three follows its length in bytes and a colon, and g-
-- stands for no group; and only where there are such, xIDENTITY, pSHA256-OF-PREFIX
-- and lLABEL. So no two contents share a serialisation. Section texts go in as digests
-- because copying them costs more than hashing (1.3 s more on 700 MB).
-- Record ids of sources without an id column depend on it: it must never change.
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
