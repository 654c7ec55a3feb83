-- Records that name their parts themselves, in the shape that rows.sql takes.
-- `cells` is put in its place by duckplets/sources/own_keys.py: row, fault, modified, the texts
-- and lists of the parts without their blanks, and given, the parts that the record has.
-- `filled` stands for the test whether a text has anything but whitespace. The values of `meta`
-- are JSON, and its keys are in order; a prefix is a checked JSON object.
-- Rows: in the order of the input.
SELECT
    "row",
    fault,
    modified,
    id,
    [
        s
        FOR s
        IN list_concat(
            [
                {'role': 'anchor', 'heading': 'anchor', 'text': anchor},
                {'role': 'context', 'heading': 'positive', 'text': positive},
                {'role': 'context', 'heading': 'text', 'text': "text"}
            ],
            [{'role': 'context', 'heading': 'context', 'text': x} FOR x IN context]
        )
        IF s.text IS NOT NULL
    ] AS sections,
    trim("date") AS date_text,
    "group" AS group_text,
    taxonomy,
    [
        m
        FOR m
        IN [
            {'key': x.key, 'value': json_extract_string(x.value, '$')}
            FOR x
            IN map_entries(meta)
        ]
        IF filled(m.value)
    ] AS meta,
    trim(trust) AS trust_text,
    CASE
        WHEN id IS NULL AND list_contains(given, 'id') THEN 'no id'
        WHEN anchor IS NULL AND list_contains(given, 'anchor') THEN 'no anchor'
        WHEN positive IS NULL AND list_contains(given, 'positive') THEN 'no positive'
        WHEN "text" IS NULL AND list_contains(given, 'text') THEN 'no text'
        WHEN len(context) = 0 AND list_contains(given, 'context') THEN 'no context: context'
        WHEN len(given) = 0 OR given = ['id'] THEN 'no text'
    END AS lack,
    CAST(json(prefix) AS VARCHAR) AS prefix,
    prefix IS NOT NULL AS has_prefix,
    CAST(NULL AS VARCHAR) AS "identity"
FROM cells
