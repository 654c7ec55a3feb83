-- name: texts
-- Return the texts of samples: each window with the text before and after it in its section.
-- Parameters: $texts (JSON: the texts in order), $version (of the corpus), $cut (characters of a
-- window), $around (characters before and after it).
-- Rows: in the order of $texts.
WITH requests AS (
    SELECT unnest(from_json($texts, '[{
        "number": "BIGINT", "position": "BIGINT", "recipe": "VARCHAR", "source": "VARCHAR",
        "swapped": "BOOLEAN", "slot": "VARCHAR", "record_id": "VARCHAR", "section": "BIGINT",
        "kind": "VARCHAR", "window": "BIGINT", "start": "BIGINT", "length": "BIGINT",
        "negative_by": "VARCHAR", "negative_rank": "BIGINT", "negative_score": "DOUBLE"
    }]'), recursive := true)
),

-- The records at this version: a replaced record and its replacement have the same id.
pinned AS (
    SELECT record_id, max(record_key) AS record_key
    FROM records
    WHERE added_version <= $version AND record_id IN (SELECT record_id FROM requests)
    GROUP BY record_id
),

-- Texts may be long, and join only at the end.
chosen AS (
    SELECT
        requests.*, sections.section_key, sections.role, sections.heading,
        (
            SELECT max(candidates.positive_score)
            FROM candidates
            WHERE
                candidates.anchor_section_key = sections.section_key
                AND candidates.recipe = requests.recipe
                AND candidates.rank = 1
        ) AS positive_score
    FROM requests
    JOIN pinned ON pinned.record_id = requests.record_id
    JOIN sections
        ON sections.record_key = pinned.record_key AND sections.position = requests.section
)

SELECT
    chosen.position, chosen.recipe, chosen.source, chosen.swapped, chosen.slot, chosen.record_id,
    chosen.role, chosen.heading, chosen.kind, chosen."window",
    chosen.negative_by, chosen.negative_rank, chosen.negative_score, chosen.positive_score,
    right(left(sections.text, chosen.start), $around) AS before,
    substring(sections.text, chosen.start + 1, least(chosen.length, $cut)) AS text,
    substring(sections.text, chosen.start + chosen.length + 1, $around) AS after,
    chosen.length AS characters, length(sections.text) AS section_characters
FROM sections
JOIN chosen ON chosen.section_key = sections.section_key
ORDER BY chosen.number
