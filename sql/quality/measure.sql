-- name: texts
-- Counts of the matches of regular expressions in texts. Densities follow when rows are decided.
-- Parameters: $email, $no_email, $digits (in every text with one of the following), $phone, $ssn,
--     $number, $ipv4, $reserved, $rare (in every text with one of the following), $groups, $ipv6,
--     $reserved6, $iban, $card, $emphasis, $keyword (regular expressions), $phrases (lower case),
--     $sample (characters).
-- Rows: one for each of `quality_texts` (place, text), in any order.
WITH numeric AS (
    SELECT
        place,
        text,
        -- Most texts have no digits close to each other, and are not searched for numbers.
        CASE
            WHEN NOT regexp_matches(text, $digits) THEN ''
            WHEN contains(text, '_') THEN regexp_replace(text, $emphasis, '*', 'g')
            ELSE text
        END AS numeric
    FROM quality_texts
),

with_rare AS (
    SELECT *, CASE WHEN regexp_matches(numeric, $rare) THEN numeric ELSE '' END AS rare
    FROM numeric
),

found AS (
    SELECT
        place,
        text,
        numeric,
        lower(text) AS folded,
        left(text, $sample) AS sample,
        string_split(left(text, $sample), chr(10)) AS lines,
        list_filter(
            regexp_extract_all(numeric, $number),
            lambda found: regexp_full_match(found, $ipv4) AND NOT regexp_matches(found, $reserved)
        ) AS addresses,
        list_filter(
            regexp_extract_all(rare, $groups),
            lambda found: regexp_full_match(found, $ipv6) AND NOT regexp_matches(found, $reserved6)
        ) AS ipv6_addresses,
        -- Digits (letters count from 10) of possible account numbers, with the checksum last.
        list_transform(
            list_transform(
                regexp_extract_all(rare, $iban), lambda found: replace(found, ' ', '')
            ),
            lambda found: list_transform(
                string_split(substr(found, 5) || left(found, 4), ''),
                lambda sign: ord(sign) - CASE WHEN sign > '9' THEN 55 ELSE 48 END
            )
        ) AS accounts,
        -- Digits of possible card numbers, from the last to the first.
        list_transform(
            regexp_extract_all(numeric, $card),
            lambda found: string_split(reverse(replace(replace(found, ' ', ''), '-', '')), '')
        ) AS numbers
    FROM with_rare
)

SELECT
    place,
    length(text) AS characters,
    len(list_filter(
        CASE WHEN contains(text, '@') THEN regexp_extract_all(text, $email) ELSE [] END,
        lambda found: NOT regexp_matches(found, $no_email)
    )) AS emails,
    len(regexp_extract_all(numeric, $phone)) AS phones,
    len(regexp_extract_all(numeric, $ssn)) AS ssns,
    len(addresses) AS addresses,
    len(ipv6_addresses) AS ipv6_addresses,
    len(list_filter(accounts, lambda account: list_reduce(
        account,
        lambda rest, digit: (rest * CASE WHEN digit > 9 THEN 100 ELSE 10 END + digit) % 97
    ) = 1)) AS ibans,
    -- Luhn: double every second digit from the right, and add all digits of the results.
    len(list_filter(numbers, lambda digits: list_sum(list_transform(
        digits,
        lambda digit, i: CASE
            WHEN i % 2 = 1 THEN digit::INTEGER
            ELSE digit::INTEGER * 2 - CASE WHEN digit::INTEGER > 4 THEN 9 ELSE 0 END
        END
    )) % 10 = 0)) AS cards,
    len(list_filter($phrases, lambda phrase: contains(folded, phrase))) AS copyright,
    len(list_filter(lines, lambda line: regexp_matches(line, '\S'))) AS code_lines,
    len(list_filter(lines, lambda line: regexp_matches(line, '^(?:\t| {2,})\s*\S')))
        AS code_indented,
    len(regexp_extract_all(sample, $keyword)) AS code_keywords
FROM found

-- name: lines
-- Counts of lines for the rules of Gopher, C4 and FineWeb, except for repeated lines.
-- Parameters: $solid, $least_words, $ended, $cut, $citation, $policy, $boundary, $abbreviation,
--     $end_of_sentence (regular expressions), $longest_word, $short_line (characters).
-- Rows: one for each of `quality_texts` (place, text), in any order.
WITH lines AS (
    SELECT
        place,
        text,
        list_filter(
            string_split(text, chr(10)), lambda line: regexp_matches(line, $solid)
        ) AS filled
    FROM quality_texts
),

-- C4 uses lines that have some words, no word too long, and the end of a sentence.
ended AS (
    SELECT
        *,
        list_filter(
            list_transform(
                list_filter(
                    filled,
                    lambda line: regexp_matches(line, $least_words) AND CASE
                        -- A split is slow, so most lines are not split, and few at all white space.
                        WHEN length(line) <= $longest_word THEN true
                        WHEN list_max(list_transform(
                            string_split(line, ' '), lambda word: length(word)
                        )) <= $longest_word THEN true
                        ELSE list_max(list_transform(
                            string_split_regex(line, '\s+'), lambda word: length(word)
                        )) <= $longest_word
                    END
                ),
                lambda line: lower(CASE
                    WHEN contains(line, '[') THEN regexp_replace(line, $citation, '', 'g')
                    ELSE line
                END)
            ),
            lambda line: regexp_matches(line, $ended) AND NOT regexp_matches(line, $cut)
        ) AS ended
    FROM lines
),

script AS (
    SELECT *, list_filter(ended, lambda line: NOT contains(line, 'javascript')) AS plain
    FROM ended
),

policy AS (
    SELECT *, list_filter(plain, lambda line: NOT regexp_matches(line, $policy)) AS content
    FROM script
),

-- Sentences are counted in all remaining lines at once, without white space around the lines.
joined AS (
    SELECT
        *,
        array_to_string(
            list_transform(content, lambda line: regexp_replace(line, '\s+$', '')), chr(1)
        ) AS body
    FROM policy
)

SELECT
    place,
    CASE WHEN contains(text, '#') THEN length(text) - length(replace(text, '#', '')) ELSE 0 END
        AS hashes,
    CASE
        WHEN contains(text, '...') THEN (length(text) - length(replace(text, '...', ''))) // 3
        ELSE 0
    END + CASE
        WHEN contains(text, '…') THEN length(text) - length(replace(text, '…', '')) ELSE 0
    END AS ellipses,
    len(list_filter(filled, lambda line: regexp_matches(line, '^\s*[•-]'))) AS bullet_lines,
    len(list_filter(filled, lambda line: regexp_matches(line, '(?:\.\.\.|…)\s*$')))
        AS ellipsis_lines,
    len(content) + len(regexp_extract_all(body, $boundary))
    - len(regexp_extract_all(body, $abbreviation)) AS sentences,
    len(list_filter(ended, lambda line: contains(line, 'lorem ipsum'))) AS lorem_ipsum,
    len(list_filter(plain, lambda line: contains(line, '{'))) AS curly_brackets,
    len(list_filter(filled, lambda line: regexp_matches(line, $end_of_sentence)))
        AS punctuated_lines,
    len(list_filter(filled, lambda line: length(line) <= $short_line)) AS short_lines
FROM joined

-- name: terms
-- The number of terms of a domain in texts, and of their categories.
-- Parameters: $terms (a regular expression).
-- Rows: one for each of `quality_texts` (place, text) with a term, in any order.
WITH found AS (
    SELECT place, unnest(regexp_extract_all(lower(text), $terms)) AS term FROM quality_texts
),

counted AS (
    SELECT place, regexp_replace(term, '\s+', ' ', 'g') AS term, count(*) AS hits
    FROM found
    GROUP BY ALL
)

SELECT
    counted.place,
    (
        SELECT sum(other.hits)::BIGINT FROM counted AS other WHERE other.place = counted.place
    ) AS domain_terms,
    count(DISTINCT quality_terms.category) AS domain_categories
FROM counted
JOIN quality_terms ON quality_terms.term = counted.term
GROUP BY counted.place

-- name: profanity
-- The number of words and phrases of a list in texts.
-- Parameters: $words, $phrases, $separators (regular expressions), $longest (characters of a word).
-- Rows: one for each of `quality_texts` (place, text) with a match, in any order.
WITH tokens AS (
    SELECT place, unnest(regexp_extract_all(lower(text), '\S+')) AS token FROM quality_texts
),

counted AS (SELECT place, token, count(*) AS times FROM tokens GROUP BY ALL),

judged AS (
    SELECT
        token,
        greatest(
            regexp_full_match(token, $words)::BIGINT,
            len(list_filter(
                string_split_regex(token, $separators), lambda part: regexp_full_match(part, $words)
            ))
        ) AS hits
    FROM (SELECT DISTINCT token FROM counted WHERE length(token) <= $longest)
)

SELECT place, sum(hits)::BIGINT AS profanity
FROM (
    SELECT counted.place, counted.times * judged.hits AS hits
    FROM counted
    JOIN judged ON judged.token = counted.token AND judged.hits > 0
    UNION ALL
    SELECT place, len(regexp_extract_all(lower(text), $phrases)) FROM quality_texts
)
WHERE hits > 0
GROUP BY place
