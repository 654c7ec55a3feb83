-- Text analysis. An analyzer in memory also runs this file (search/analyzer.py), so an index and the
-- duckdb CLI split text by the same definition.
CREATE SCHEMA IF NOT EXISTS _internal;

CREATE MACRO _internal.own_marks() AS
    '\x{0700}-\x{074F}\x{0780}-\x{085F}\x{0900}-\x{109F}\x{1700}-\x{1AAF}\x{1B00}-\x{1C7F}'
    || '\x{1CD0}-\x{1CFF}\x{3040}-\x{30FF}\x{A800}-\x{AAFF}\x{ABC0}-\x{ABFF}'
    || '\x{10A00}-\x{10AFF}\x{11000}-\x{11FFF}';
COMMENT ON MACRO _internal.own_marks IS
    'Characters of scripts whose marks change words, such as kana and scripts of India';

CREATE MACRO _internal.paired() AS
    '\x{0E01}-\x{0E4E}\x{0E81}-\x{0ECF}\x{0EDC}-\x{0EDF}\x{1000}-\x{103F}\x{1050}-\x{108F}'
    || '\x{109A}-\x{109D}\x{1780}-\x{17DD}\x{2E80}-\x{2FDF}\x{3005}-\x{3007}\x{3021}-\x{303C}'
    || '\x{3041}-\x{312F}\x{31A0}-\x{31FF}\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{AA60}-\x{AA7F}'
    || '\x{F900}-\x{FAFF}\x{FF66}-\x{FF9F}\x{1AFF0}-\x{1B16F}\x{20000}-\x{3FFFF}';
COMMENT ON MACRO _internal.paired IS
    'Letters and marks of scripts without spaces, whose terms are pairs of characters';

CREATE MACRO _internal.marks() AS '\pM\x{0E33}\x{0EB3}\x{FF9E}\x{FF9F}';
COMMENT ON MACRO _internal.marks IS 'Characters that belong to the one before them';

CREATE MACRO _internal.unaccented(text) AS CASE
    WHEN strlen(text) = length(text) THEN text
    WHEN NOT regexp_matches(text, '[' || _internal.own_marks() || ']') THEN strip_accents(text)
    ELSE array_to_string(
        list_transform(
            regexp_extract_all(
                text,
                '[' || _internal.own_marks() || '][\x{200C}\x{200D}' || _internal.own_marks()
                || ']*|[^' || _internal.own_marks() || ']+'
            ),
            lambda part: CASE
                WHEN regexp_matches(part, '^[' || _internal.own_marks() || ']')
                    THEN nfc_normalize(regexp_replace(part, '[\x{200C}\x{200D}]', '', 'g'))
                ELSE strip_accents(part)
            END
        ),
        ''
    )
END;
COMMENT ON MACRO _internal.unaccented IS 'A text without marks, except marks that change words';

CREATE MACRO _internal.folded(text) AS CASE
    WHEN strlen(text) = length(text) OR NOT regexp_matches(text, '[\x{FF10}-\x{FF5A}]')
        THEN lower(_internal.unaccented(text))
    ELSE lower(translate(
        _internal.unaccented(text),
        '０１２３４５６７８９ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ'
        || 'ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ',
        '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
    ))
END;
COMMENT ON MACRO _internal.folded IS
    'A text in lower case without accents, full-width letters and digits as ASCII';

CREATE MACRO _internal.in_pairs(words) AS flatten(list_transform(
    list_transform(
        words,
        lambda word: CASE
            WHEN word >= 'ก' AND regexp_matches(word, '^[' || _internal.paired() || ']')
                THEN regexp_extract_all(
                    word, '[^' || _internal.marks() || '][' || _internal.marks() || ']*|^['
                    || _internal.marks() || ']+'
                )
            ELSE [word]
        END
    ),
    lambda word: CASE
        WHEN len(word) = 1 THEN word
        ELSE list_transform(
            range(1, len(word)), lambda place: word[place] || word[place + 1]
        )
    END
));
COMMENT ON MACRO _internal.in_pairs IS
    'Words; scripts without spaces become pairs of characters';

CREATE MACRO _internal.split_words(text) AS CASE
    WHEN strlen(text) = length(text) OR NOT regexp_matches(text, '[' || _internal.paired() || ']')
        THEN string_split(text, ' ')
    ELSE _internal.in_pairs(string_split(
        regexp_replace(
            regexp_replace(
                text,
                '([^ ' || _internal.paired() || '])([' || _internal.paired() || '])',
                '\1 \2',
                'g'
            ),
            '([' || _internal.paired() || '])([^ ' || _internal.paired() || '])',
            '\1 \2',
            'g'
        ),
        ' '
    ))
END;
COMMENT ON MACRO _internal.split_words IS 'The words of a folded text, which blanks separate';

CREATE MACRO words(text) AS list_filter(
    _internal.split_words(
        regexp_replace(_internal.folded(text), '[^\p{L}\p{N}\p{M}]+', ' ', 'g')
    ),
    lambda word: word <> ''
);
COMMENT ON MACRO words IS
    'The words of a text as in an index with default settings, not stemmed: words(''Red Foxes'')';
