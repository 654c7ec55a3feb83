-- First unused key of records, sections and chunks. The keys of sections that preprocessors
-- dropped are kept free, those after the last stored section too.
WITH latest AS (
    SELECT section_key, record_key, position
    FROM sections
    ORDER BY section_key DESC
    LIMIT 1
)

SELECT
    (SELECT coalesce(max(record_key), 0) + 1 FROM records) AS record,
    (SELECT coalesce(max(section_key), 0) + 1 FROM latest) + (
        SELECT count(*)
        FROM section_originals
        LEFT JOIN latest ON TRUE
        WHERE
            latest.record_key IS NULL
            OR section_originals.record_key > latest.record_key
            OR (
                section_originals.record_key = latest.record_key
                AND section_originals.position > latest.position
            )
    ) AS section,
    (SELECT coalesce(max(chunk_key), 0) + 1 FROM chunks) AS chunk
