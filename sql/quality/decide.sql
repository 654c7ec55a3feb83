-- Which gate and rule each row fails first, by stored metrics and the thresholds of settings.
-- A threshold that is NULL compares with nothing, and so is off. Rules have the names of settings.
-- Parameters: $required, $licenses (lower case), $pii (whether it rejects), $max_pii_density,
--     $email, $phone, $ssn, $ipv4, $card (1 for kinds that count, else 0), $copyright,
--     $lorem_ipsum, $curly_brackets (whether they are allowed), $language, $undetermined (whether
--     it is accepted), $code_early_gate, and thresholds by their names: $min_characters,
--     $max_characters, $max_profanity_density, $min_words, $max_words, $min_word_length,
--     $max_word_length, $max_hashes, $max_ellipses, $max_bullet_lines, $max_ellipsis_lines,
--     $min_alphabetic_words, $min_stop_words, $max_duplicate_paragraphs,
--     $max_duplicate_paragraph_characters, $max_duplicate_lines, $max_duplicate_line_characters,
--     $max_top_2gram, $max_top_3gram, $max_top_4gram, $max_duplicate_5grams,
--     $max_duplicate_6grams, $max_duplicate_7grams, $max_duplicate_8grams, $max_duplicate_9grams,
--     $max_duplicate_10grams, $min_sentences, $min_punctuated_lines, $max_short_lines,
--     $max_duplicate_filled_characters, $max_newlines, $min_language_probability,
--     $min_domain_terms, $min_domain_density, $min_domain_categories, $code_score.
-- Rows: one for each of `quality_metrics`, in any order; NULLs where nothing fails.
SELECT
    place,
    CASE
        WHEN len($required::VARCHAR[]) > 0
            AND NOT list_has_all(coalesce(present, []), $required::VARCHAR[]) THEN 'required'
        WHEN characters < $min_characters THEN 'min_characters'
        WHEN characters > $max_characters THEN 'max_characters'
        WHEN $licenses::VARCHAR[] IS NOT NULL AND NOT coalesce(
            list_contains($licenses::VARCHAR[], lower(trim(license))), false
        ) THEN 'licenses'
    END AS schema_rule,
    CASE
        WHEN $pii AND (
            coalesce(emails * $email, 0) + coalesce(phones * $phone, 0)
            + coalesce(ssns * $ssn, 0) + coalesce(addresses * $ipv4, 0)
            + coalesce(cards * $card, 0)
        ) / words > $max_pii_density THEN 'max_pii_density'
        WHEN profanity / words > $max_profanity_density THEN 'max_profanity_density'
        WHEN $copyright AND copyright > 0 THEN 'copyright'
        WHEN plain_tokens < $min_words THEN 'min_words'
        WHEN plain_tokens > $max_words THEN 'max_words'
        WHEN plain_characters / plain_tokens < $min_word_length THEN 'min_word_length'
        WHEN plain_characters / plain_tokens > $max_word_length THEN 'max_word_length'
        WHEN hashes / tokens > $max_hashes THEN 'max_hashes'
        WHEN ellipses / tokens > $max_ellipses THEN 'max_ellipses'
        WHEN bullet_lines / lines > $max_bullet_lines THEN 'max_bullet_lines'
        WHEN ellipsis_lines / lines > $max_ellipsis_lines THEN 'max_ellipsis_lines'
        WHEN alphabetic_tokens / tokens < $min_alphabetic_words THEN 'min_alphabetic_words'
        WHEN stop_words < $min_stop_words THEN 'min_stop_words'
        WHEN duplicate_paragraphs / paragraphs > $max_duplicate_paragraphs
            THEN 'max_duplicate_paragraphs'
        WHEN duplicate_paragraph_characters / characters > $max_duplicate_paragraph_characters
            THEN 'max_duplicate_paragraph_characters'
        WHEN duplicate_lines / pieces > $max_duplicate_lines THEN 'max_duplicate_lines'
        WHEN duplicate_line_characters / characters > $max_duplicate_line_characters
            THEN 'max_duplicate_line_characters'
        WHEN top_2gram / characters > $max_top_2gram THEN 'max_top_2gram'
        WHEN top_3gram / characters > $max_top_3gram THEN 'max_top_3gram'
        WHEN top_4gram / characters > $max_top_4gram THEN 'max_top_4gram'
        WHEN duplicate_5grams / characters > $max_duplicate_5grams THEN 'max_duplicate_5grams'
        WHEN duplicate_6grams / characters > $max_duplicate_6grams THEN 'max_duplicate_6grams'
        WHEN duplicate_7grams / characters > $max_duplicate_7grams THEN 'max_duplicate_7grams'
        WHEN duplicate_8grams / characters > $max_duplicate_8grams THEN 'max_duplicate_8grams'
        WHEN duplicate_9grams / characters > $max_duplicate_9grams THEN 'max_duplicate_9grams'
        WHEN duplicate_10grams / characters > $max_duplicate_10grams THEN 'max_duplicate_10grams'
        WHEN NOT $lorem_ipsum AND lorem_ipsum > 0 THEN 'lorem_ipsum'
        WHEN NOT $curly_brackets AND curly_brackets > 0 THEN 'curly_brackets'
        WHEN sentences < $min_sentences THEN 'min_sentences'
        WHEN coalesce(punctuated_lines / filled_lines, 0) < $min_punctuated_lines
            THEN 'min_punctuated_lines'
        WHEN short_lines / filled_lines > $max_short_lines THEN 'max_short_lines'
        WHEN duplicate_filled_characters / (characters - newlines)
            > $max_duplicate_filled_characters THEN 'max_duplicate_filled_characters'
        WHEN newlines / tokens > $max_newlines THEN 'max_newlines'
    END AS content_rule,
    CASE
        WHEN language = 'undetermined' AND NOT $undetermined AND $language IS NOT NULL
            THEN 'undetermined'
        WHEN language NOT IN ('undetermined', $language) THEN 'language'
        WHEN language = $language AND language_probability < $min_language_probability
            THEN 'min_language_probability'
        WHEN domain_terms < $min_domain_terms THEN 'min_domain_terms'
        WHEN domain_terms / words < $min_domain_density THEN 'min_domain_density'
        WHEN domain_categories < $min_domain_categories THEN 'min_domain_categories'
        WHEN $code_score IS NOT NULL AND $code_early_gate AND NOT code_early
            THEN 'code_early_gate'
        -- The weights are those of the report; they are taken to be in hundredths.
        WHEN CASE WHEN code_lines < 3 THEN 0 ELSE (
            45 * code_indented / code_lines
            + 30 * coalesce(code_symbols / code_characters, 0)
            + 25 * coalesce(code_keywords / code_words, 0)
        ) / 100 END < $code_score THEN 'code_score'
    END AS domain_rule
FROM quality_metrics
