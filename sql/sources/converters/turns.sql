-- Turns of what is said: roles for tags, texts, weights, what tools are called; and the first fault
-- among them. A turn that calls tools may have no text.
-- `told` is put in its place by duckplets/sources/converters/compose.py; for the rejected side of a pair
-- the columns said and turns stand for others.
-- Parameters: $tags, $known (the same in words), $roles (of each tag), $tag_key, $value_key (the keys of a turn), $blocks
-- (whether a text may be a list of blocks), $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
WITH heard AS (
    SELECT
        * EXCLUDE (said),
        [
            {
                'field': s."field",
                'place': s.place,
                'tag': s.tag,
                'role': list_extract($roles, list_position($tags, s.tag)),
                'content': s.content,
                'calls': CASE
                    WHEN list_extract($roles, list_position($tags, s.tag)) = 'assistant'
                    THEN coalesce(
                        nullif(nullif(CAST(s.more -> '$.tool_calls' AS VARCHAR), 'null'), '[]'),
                        '[{"type":"function","function":'
                        || nullif(CAST(s.more -> '$.function_call' AS VARCHAR), 'null') || '}]'
                    )
                END,
                'more': s.more,
                'raw': CASE
                    WHEN starts_with(s.content, '"') THEN [s.content]
                    WHEN starts_with(s.content, '[') AND $blocks
                    THEN [
                        CASE
                            WHEN b."type" = '"text"'
                            THEN CAST(coalesce(b."text", b."value") AS VARCHAR)
                        END
                        FOR b IN from_json(
                            s.content, '[{"type":"JSON","text":"JSON","value":"JSON"}]'
                        )
                    ]
                END,
                'weight': nullif(s.weight, 'null')
            }
            FOR s IN said
        ] AS heard
    FROM told
),
read AS (
    SELECT
        * EXCLUDE (heard),
        [
            {
                'field': h."field",
                'place': h.place,
                'tag': h.tag,
                'role': h.role,
                'content': h.content,
                'is_text': coalesce(
                    len([r FOR r IN h.raw IF starts_with(r, '"')]) = len(h.raw),
                    h.calls IS NOT NULL AND h.content IS NULL
                ),
                'texts': coalesce(
                    [json_extract_string(r, '$') FOR r IN h.raw IF starts_with(r, '"')], []
                ),
                'calls': h.calls,
                'called': CASE
                    WHEN h.calls IS NOT NULL
                    THEN json_type(h.calls) = 'ARRAY'
                        AND len(
                            [
                                c FOR c IN from_json(
                                    h.calls, '[{"function":{"name":"JSON"}}]'
                                )
                                IF starts_with(CAST(c."function"."name" AS VARCHAR), '"') IS NOT TRUE
                            ]
                        ) = 0
                END,
                'more': concat_ws(
                    ',',
                    '"tool_calls":' || h.calls,
                    CASE
                        WHEN h.role = 'tool'
                        THEN '"tool_call_id":'
                            || nullif(CAST(h.more -> '$.tool_call_id' AS VARCHAR), 'null')
                    END,
                    CASE
                        WHEN h.role = 'tool'
                        THEN '"name":' || nullif(CAST(h.more -> '$.name' AS VARCHAR), 'null')
                    END
                ),
                'weight': CASE
                    WHEN h.weight IS NULL THEN CAST(h.role = 'assistant' AS DOUBLE)
                    WHEN regexp_full_match(h.weight, '[0-9].*') THEN TRY_CAST(h.weight AS DOUBLE)
                END,
                'given': h.weight
            }
            FOR h IN heard
        ] AS read
    FROM heard
),
judged AS (
    SELECT
        *,
        [
            CASE
                WHEN t.tag IS NULL
                THEN {
                    'reason': concat('has a turn without ''', $tag_key, ''''),
                    'detail': concat('no ''', $tag_key, '''')
                }
                WHEN t.role IS NULL
                THEN {
                    'reason': concat('has an unknown ''', $tag_key, ''''),
                    'detail': concat(
                        '''', $tag_key, ''' is ', left(t.tag, 60), '; known are: ', $known
                    )
                }
                WHEN t.called IS FALSE
                THEN {
                    'reason': 'has a turn whose ''tool_calls'' are no list of functions with names',
                    'detail': concat(
                        '''tool_calls'' is no list of {"function": {"name": …}}: ', left(t.calls, 60)
                    )
                }
                WHEN t.content IS NULL AND t.calls IS NULL
                THEN {
                    'reason': concat('has a turn without ''', $value_key, ''''),
                    'detail': concat('no ''', $value_key, ''', and no tool is called')
                }
                WHEN t.is_text IS NOT TRUE
                THEN {
                    'reason': concat('has a ''', $value_key, ''' that is not text'),
                    'detail': concat(
                        '''', $value_key, ''' is not text: ', left(t.content, 60)
                    )
                }
                WHEN t.role IN ('assistant', 'user')
                    AND t.calls IS NULL
                    AND NOT regexp_matches(array_to_string(t.texts, ''), $filled)
                THEN {
                    'reason': concat('has an empty turn of the ', t.role),
                    'detail': concat('the turn of the ', t.role, ' is empty')
                }
                WHEN t.weight IS NULL OR NOT isfinite(t.weight)
                THEN {
                    'reason': 'has a ''loss_weight'' that is no number from 0 up',
                    'detail': concat(
                        '''loss_weight'' is no number from 0 up: ', left(t.given, 60)
                    )
                }
            END
            FOR t IN read
        ] AS faults
    FROM read
),
found AS (
    SELECT *, list_position([f IS NOT NULL FOR f IN faults], TRUE) AS fault_place
    FROM judged
)
SELECT
    * EXCLUDE (read, faults, fault_place, problem),
    [
        {'role': t.role, 'texts': t.texts, 'more': t.more, 'weight': t.weight}
        FOR t IN read
        IF t.role <> 'system' OR array_to_string(t.texts, '') <> ''
    ] AS turns,
    coalesce(
        problem,
        CASE
            WHEN fault_place > 0
            THEN {
                'reason': concat(read[fault_place]."field", ' ', faults[fault_place].reason),
                'detail': concat(
                    'field ''', read[fault_place]."field", ''', turn ', read[fault_place].place,
                    ': ', faults[fault_place].detail
                )
            }
        END
    ) AS problem
FROM found
