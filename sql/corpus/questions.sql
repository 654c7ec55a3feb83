-- name: beside
-- Views of the corpus find files beside it by this folder, on all connections of an instance.
-- Parameters: $folder.
-- Rows: none.
SET temp_directory = $folder

-- name: attach
-- The corpus, to read only, in an instance of the user's own.
-- Parameters: $path.
-- Rows: none.
ATTACH $path AS corpus (READ_ONLY)

-- name: what_is_in_it
-- How many records and tokens has each source, split and role?
-- Rows: none.
CREATE VIEW what_is_in_it AS
SELECT
    source, split, role, count(DISTINCT record_id) AS records, count(*) AS sections,
    sum(token_count)::BIGINT AS tokens, median(token_count) AS median_tokens
FROM corpus.section_texts
GROUP BY ALL
ORDER BY ALL

-- name: which_texts_are_longest
-- Which texts have the most tokens?
-- Rows: none.
CREATE VIEW which_texts_are_longest AS
SELECT record_id, split, role, token_count, text
FROM corpus.section_texts
ORDER BY token_count DESC, record_id, position

-- name: which_texts_come_twice
-- Which texts are the same in several sections, and are some of them in several splits?
-- Rows: none.
CREATE VIEW which_texts_come_twice AS
SELECT
    count(*) AS times, list(DISTINCT role ORDER BY role) AS roles,
    list(DISTINCT split ORDER BY split) AS splits, text, min(record_id) AS first_record_id
FROM corpus.section_texts
GROUP BY text
HAVING count(*) > 1
ORDER BY times DESC, text

-- name: which_anchors_leak
-- Which anchors of validation and test are anchors of train, too?
-- Rows: none.
CREATE VIEW which_anchors_leak AS
SELECT kept.split, kept.record_id, train.record_id AS train_record_id, kept.text
FROM corpus.section_texts AS kept
JOIN corpus.section_texts AS train
    ON train.text = kept.text AND train.split = 'train' AND train.role = 'anchor'
WHERE kept.split IN ('validation', 'test') AND kept.role = 'anchor'
ORDER BY ALL

-- name: what_was_left_out
-- Which rows of which ingest became no record, and why?
-- Rows: none.
CREATE VIEW what_was_left_out AS
SELECT version, source, entry.key AS reason, entry.value::BIGINT AS "rows"
FROM (
    SELECT
        version, source,
        unnest(map_entries((report -> '$.reasons')::MAP(VARCHAR, BIGINT))) AS entry
    FROM corpus.corpus_versions
)
ORDER BY version, "rows" DESC, reason

-- name: what_did_gates_decide
-- How did the rows that went through gates end, by gate and rule?
-- Rows: none.
CREATE VIEW what_did_gates_decide AS
SELECT source, outcome, gate, rule, "rows"
FROM corpus.judgement_counts
ORDER BY source, "rows" DESC, outcome, gate, rule

-- name: which_negatives_are_hardest
-- What stands beside an anchor as its hardest negative?
-- Rows: none.
CREATE VIEW which_negatives_are_hardest AS
SELECT anchor, negative, score, recipe, source, split, anchor_record_id, negative_record_id
FROM corpus.hard_negatives
WHERE rank = 1
ORDER BY score DESC, anchor_record_id

-- name: which_negatives_may_be_false
-- Which negatives score above the positive of their anchor, and may be right answers?
-- Rows: none.
CREATE VIEW which_negatives_may_be_false AS
SELECT
    anchors.text AS anchor, texts.text AS negative, found.score, found.positive_score,
    found.recipe, found.source, found.split
FROM corpus.negatives AS drawn
JOIN corpus.candidates AS found
    USING (recipe, source, split, scorer, anchor_section_key, negative_section_key, rank)
JOIN corpus.sections AS anchors ON anchors.section_key = found.anchor_section_key
JOIN corpus.sections AS texts ON texts.section_key = found.negative_section_key
WHERE found.score > found.positive_score
ORDER BY found.score - found.positive_score DESC, anchor, negative

-- name: show
-- The first rows that a question has.
-- Parameters: $view (its name), $rows.
-- Rows: in its order.
SELECT * FROM query_table($view) LIMIT $rows

-- name: first
-- The first rows of a user's statement, each as a text of JSON.
-- Parameters: $query, $rows.
-- Rows: in the statement's order.
SELECT to_json(answer)::VARCHAR AS "row" FROM query($query) AS answer LIMIT $rows

-- name: serve
-- Serve the page on this machine.
-- Rows: one, which ends with its address.
SELECT * FROM start_ui_server()

-- name: browse
-- Open the page in the user's browser.
-- Rows: one, which names its address.
SELECT * FROM start_ui()
