-- Prompt, reply and messages of Alpaca rows: system, instruction and input joined as they are,
-- output. Not by way of turns: that takes three times as long.
-- `fields` is put in its place by duckplets/sources/converters/compose.py.
-- Parameters: $filled (what a text that is not blank matches).
-- Rows: in the order of the input.
WITH joined AS (
    SELECT
        * EXCLUDE ("instruction", "input"),
        concat("instruction", "input") AS prompt,
        "instruction" IS NULL AND "input" IS NOT NULL AS is_input,
        "instruction" IS NULL AND "input" IS NULL AS is_missing
    FROM fields
)
SELECT
    * EXCLUDE ("system", "output", is_input, is_missing, problem),
    CASE WHEN is_input THEN 'input' ELSE 'instruction' END AS prompt_heading,
    "output" AS reply,
    'output' AS reply_heading,
    concat(
        '[',
        CASE
            WHEN "system" <> ''
            THEN concat(
                '{"role":"system","content":[{"type":"text","text":', to_json("system"),
                '}],"loss_weight":0.0},'
            )
        END,
        '{"role":"user","content":[{"type":"text","text":', to_json(prompt),
        '}],"loss_weight":0.0},{"role":"assistant","content":[{"type":"text","text":',
        to_json("output"), '}],"loss_weight":1.0}]'
    ) AS messages,
    CASE WHEN "system" <> '' THEN concat('alpaca ', sha256("system")) ELSE 'alpaca' END AS "identity",
    coalesce(
        problem,
        CASE
            WHEN is_missing
            THEN {
                'reason': 'instruction is missing',
                'detail': 'field ''instruction'': missing, and ''input'' too'
            }
            WHEN NOT regexp_matches(prompt, $filled)
            THEN {
                'reason': 'instruction is empty',
                'detail': 'field ''instruction'': empty, and no text in ''input'' either'
            }
            WHEN NOT regexp_matches("output", $filled)
            THEN {'reason': 'output is empty', 'detail': 'field ''output'': empty'}
        END
    ) AS problem
FROM joined
