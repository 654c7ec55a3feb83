"""What is found in texts: a table of planted kinds, with near misses, measured in one call."""

import hashlib
import ipaddress
import random
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from effort import often

from duckplets.db.database import Database
from duckplets.quality import lines, tokens
from duckplets.quality.measure import measure
from duckplets.quality.settings import PII as KINDS
from duckplets.quality.settings import Quality
from duckplets.text.characters import bytes_of, classes
from duckplets.text.chunking import Chunking
from duckplets.text.windows import windows

UNICAST = ipaddress.IPv6Network("2000::/3")
PROFANE = "damn\nd@rn\nhell\nbastard\n# a comment\nass\nblow it all\n"

# Texts, and what is found in them; every metric that is not named in a row of PII is 0.
PII = {
    "write to ann@example.com today": {"emails": 1},
    "a.b+c@mail.example.co.uk, x@y.org": {"emails": 2},
    "ann@example and @example.com": {},
    "ann at example.com": {},
    "call 212-555-0123 now": {"phones": 1},
    "(212) 555-0123 or 1-212-555-0124": {"phones": 2},
    "+49 30 901820 and +442071838750": {"phones": 2},
    "pages 212-555 and 0123": {},
    "12125550123 without marks": {},
    "ssn 123-45-6789.": {"ssns": 1},
    "ssn 123 45 6789.": {"ssns": 1},
    "ssn 000-45-6789, 666-45-6789, 912-45-6789": {},
    "ssn 123-00-6789, 123-45-0000, 1234-45-6789": {},
    "host 8.8.8.8 and 1.1.1.1.": {"addresses": 2},
    "host 127.0.0.1, 10.1.2.3, 192.168.0.1, 172.16.5.4": {},
    "host 169.254.1.1, 100.64.0.1, 203.0.113.9, 224.0.0.1": {},
    "host 256.1.1.1, 1.2.3, version 1.2.3.4.5": {},
    "172.32.0.1 and 100.128.0.1 are public": {"addresses": 2},
    "card 4111 1111 1111 1111": {"cards": 1},
    "card 4111-1111-1111-1111, 5500000000000004": {"cards": 2},
    "card 3782 822463 10005": {"cards": 1},
    "card 4111 1111 1111 1112": {},
    "isbn 9780306406157, 0000 0000 0000 0000": {},
    "order 12345": {},
    "version 1.2.3.4, Version: 8.8.8.8, versions 8.8.8.8": {},
    "name-8.8.8.8, name==8.8.8.8, name >= 8.8.8.8, v. 8.8.8.8": {},
    "8.8.8.8.tar.gz, 8.8.8.8.zip, 8.8.8.8-rc1, section 8.8.8.8": {},
    "conversion 8.8.8.8 at ip=8.8.8.8, http://8.8.8.8/x.png": {"addresses": 3},
    "icon@2x.png, icon@3x.JPG, app@1.2.min.js, git@github.com:a/b": {},
    "png@example.com, a@png.com": {"emails": 2},
    "IBAN DE89 3704 0044 0532 0130 00, GB82WEST12345698765432.": {"ibans": 2},
    "BE68 5390 0754 7034 BANK; MT84 MALT 0110 0001 2345 MTLC AST0 01S": {"ibans": 2},
    "DE88 3704 0044 0532 0130 00, DE89 3704 0044 0532 0130 0, XX89370400440532013000": {},
    "2a00:1450:4001:81b::200e, [2606:4700::1111]:443": {"ipv6_addresses": 2},
    "2001:4860:4860:0:0:0:0:8888 and 2620:0:2D0:200::7": {"ipv6_addresses": 2},
    "2001:db8::1, fe80::2a00:1, ::1, fd12:3456:789a::1, 2002:808:808::1": {},
    "2024::, 12:34:56, 2a00::1::2, 2001:1:2:3:4:5:6:7:8, std::dec, add::2": {},
}

# Texts, a metric, its value.
FOUND = [
    ("Copyright 2024", "copyright", 1),
    ("© 2024. ALL RIGHTS RESERVED", "copyright", 2),
    ("the right to copy", "copyright", 0),
    ("damn it", "profanity", 1),
    ("DAMN, damn! d.a.m.n and 'damn'", "profanity", 3),
    ("d@mn h*ll a$$ asss", "profanity", 0),
    ("he said 'damn/hell'", "profanity", 2),
    ("as assess class hello shell damnation he'll", "profanity", 0),
    ("blow  it\nall, then", "profanity", 1),
    ("damn's", "profanity", 1),
    ("D@rn it, daaarn", "profanity", 1),
    ("The patient had a myocardial  infarction and chronic pain.", "domain_terms", 4),
    ("The patient had a myocardial infarction and chronic pain.", "domain_categories", 3),
    ("hearty painting", "domain_terms", 0),
    ("a b  c\n d", "words", 4),
    ("a\u00a0b\u2003c", "words", 3),
    ("a\n\nb\n", "lines", 3),
    ("a\n\nb\n", "newlines", 3),
    ("nul\0 and \x07 bell", "characters", 15),
    ("naïve", "bytes", 6),
    ("don't e.g. 1,000 3.14 ... --", "tokens", 8),
    ("日本語 text", "tokens", 4),
    ("第3章、GPUを使う。", "plain_tokens", 7),
    ("第3章、GPUを使う。", "plain_characters", 29),
    ("ที่นี่ดี", "plain_tokens", 3),
    ("人" * 60, "words", 60),
    ("กา" * 30, "words", 30),
    ("一行目の文です。\n二行目「本当です。」\n短い", "sentences", 2),
    ("! ? «x» “y”", "plain_tokens", 2),
    ("The the of OF and", "stop_words", 3),
    ("a1 22 é 33", "alphabetic_tokens", 2),
    ("### #", "hashes", 4),
    ("a... b.... c…", "ellipses", 3),
    ("- a\n • b\nc -", "bullet_lines", 2),
    ("a...\nb… \nc... d", "ellipsis_lines", 2),
    ("a\n\nb\n\n\n a\n\na", "paragraphs", 4),
    ("\n a\n\nb\n\n\na ", "duplicate_paragraphs", 1),
    ("ab\nab\n\nab", "duplicate_lines", 2),
    ("ab\nab\n\nab", "duplicate_line_characters", 4),
    ("\nab\n", "pieces", 3),
    ("\nab\n", "duplicate_lines", 1),
    ("One two three. Four five six! seven", "sentences", 0),
    ("One two three. Four five six!\nseven eight nine", "sentences", 2),
    ("Dr. Who came. He left.\n", "sentences", 2),
    ("It works with javascript now.\nThis line stays here.", "sentences", 1),
    ("Read our privacy policy here.\nThis line stays here.", "sentences", 1),
    ("This is cited.[12]\nThis trails off...", "sentences", 1),
    ("Lorem ipsum dolor sit.", "lorem_ipsum", 1),
    ("Lorem ipsum", "lorem_ipsum", 0),
    ("A { brace here.", "curly_brackets", 1),
    ("A { javascript brace.", "curly_brackets", 0),
    ("short.\n\nshort\n", "filled_lines", 2),
    ("short.\n\nshort\n", "punctuated_lines", 1),
    ("終わり。", "punctuated_lines", 1),
    ("x" * 30 + "\n" + "x" * 31, "short_lines", 1),
    ("def f(x):\n    return x\n", "code_indented", 1),
    ("def f(x):\n    return x\n", "code_keywords", 2),
    ("def f(x):\n    return x\n", "code_early", True),
    ("for if end with", "code_keywords", 0),
    ("The code (of law)\nsays no.", "code_early", False),
    ("a" * 8192 + "{", "code_symbols", 0),
    ("a" * 8191 + "{", "code_symbols", 1),
    ("Der schnelle braune Fuchs springt über den faulen Hund und läuft davon.", "language", "de"),
    ("The quick brown fox jumps over the lazy dog and runs away again.", "language", "en"),
    ("12345 67890 !!!", "language", "undetermined"),
    ("Too short here", "language", "undetermined"),
]


@cache
def metrics():
    """Return the metrics of all texts above, measured at once, and the texts."""
    texts = [*PII, *(text for text, _, _ in FOUND)]
    table = pa.table({"row": pa.array(range(100, 100 + len(texts))), "text": texts})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.txt"
        file.write_text(PROFANE, encoding="utf-8")
        found = measure(Database.reader(), table, Quality(profanity=file))
    assert found["row"].to_pylist() == table["row"].to_pylist()
    return found.to_pydict(), texts


def test_personal_data():
    found, texts = metrics()
    kinds = KINDS.values()
    for at, text in enumerate(texts[: len(PII)]):
        assert {kind: found[kind][at] for kind in kinds if found[kind][at]} == PII[text], text


def test_ipv6_addresses_are_those_of_the_standard_library():
    draw = random.Random(3)
    groups = ["", "0", "1f", "db8", "0db8", "1ff", "200", "2a00", "2600", "3ffe", "ffff", "2001"]
    shown = [":".join(draw.choices(groups, k=draw.choice([3, 4, 6, 8, 9]))) for _ in range(3_000)]
    shown = [each.strip(":") for each in [*shown, *(f"2a00:{each}" for each in shown[:1_000])]]
    table = pa.table({"row": range(len(shown)), "text": shown})
    found = measure(Database.reader(), table, Quality(language=None))["ipv6_addresses"].to_pylist()
    assert 50 < sum(found) < 3_000
    for text, count in zip(shown, found, strict=True):
        assert count == is_public(text), text


def is_public(text):
    """Return whether a text is a public address."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return address.is_global and address in UNICAST and text[4:5] == ":"


def test_metrics():
    found, texts = metrics()
    assert found["sha256"] == [hashlib.sha256(text.encode()).digest() for text in texts]
    for text, metric, value in FOUND:
        assert found[metric][texts.index(text, len(PII))] == value, (text, metric)


def tokens_of(text):
    data, bounds = bytes_of(pa.array([text]))
    flags = classes(data)
    start, end, _ = tokens._tokens(data, flags, bounds, np.isin(flags >> 4, tokens._ALONE))
    raw = data.tobytes()
    return [raw[a:b].decode() for a, b in zip(start.tolist(), end.tolist(), strict=True)]


def expected(text):
    found, words = {}, tokens_of(text)
    for n in tokens.TOP:
        grams = Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
        gram, times = grams.most_common(1)[0] if grams else ("", 0)
        found[f"top_{n}gram"] = len(gram) * times
    for n in tokens.DUPLICATE:
        at = total = 0
        seen = set()
        while at < len(words) - n + 1:
            gram_at = tuple(words[at : at + n])
            again = gram_at in seen
            total += len("".join(gram_at)) * again
            at += n if again else 1
            seen.add(gram_at)
        found[f"duplicate_{n}grams"] = total
    found["words"], found["tokens"] = int(windows(pa.array([text]), Chunking())[0][0]), len(words)
    found["alphabetic_tokens"] = sum(any(map(str.isalpha, word)) for word in words)
    found["stop_words"] = len({*tokens.STOP_WORDS} & {*words})
    found["code_characters"] = sum(not c.isspace() for c in text[:50])
    found["code_symbols"] = sum(c in tokens.SYMBOLS.decode() for c in text[:50])
    found["code_words"] = len(text[:50].split())
    return found


def test_tokens_and_repetition_are_as_counted_one_by_one(monkeypatch):
    draw = random.Random(5)
    parts = ["a", "b", "dé", "the", "of", ".", "..", "'", "日", "#", "{", ",", " ", "\n", "3", "。"]
    sizes = [0, 1, 2, 3, 7, 30, 150]
    for limit in (300, 4 << 20):  # bytes of a block
        monkeypatch.setattr(tokens, "_BYTES", limit)
        texts = [
            "".join(draw.choice(parts) + draw.choice(["", " "]) for _ in range(draw.choice(sizes)))
            for _ in range(often(600, less=80))
        ]
        found = tokens.counts(pa.array(texts), 50)
        for at, text in enumerate(texts):
            assert {k: int(found[k][at]) for k in expected(text)} == expected(text), text


def lines_of(text):
    """Return what is counted of lines and paragraphs, as one would write it."""
    pieces = [line for line in text.split("\n") if line]
    filled = [line for line in pieces if line.strip(lines.BLANKS)]
    paragraphs = [text]
    if "\n\n" in text:
        parts = text.strip(lines.BLANKS).split("\n\n")
        paragraphs = [part.lstrip("\n") for part in parts if part.lstrip("\n")]
    ends = text[:1] == "\n", text[-1:] == "\n"
    found = {"newlines": text.count("\n"), "lines": text.count("\n") + (not ends[1])}
    found |= {"pieces": len(pieces) + sum(ends), "filled_lines": len(filled)}
    found |= {"duplicate_lines": len(pieces) - len(set(pieces)) + all(ends)}
    found |= {"paragraphs": len(paragraphs)}
    found |= {"duplicate_paragraphs": len(paragraphs) - len(set(paragraphs))}
    for name, parts in (("line", pieces), ("paragraph", paragraphs), ("filled", filled)):
        name = f"duplicate_{name}_characters"
        found[name] = sum(map(len, parts)) - sum(map(len, set(parts)))
    return found


def test_lines_and_paragraphs_are_as_counted_one_by_one(monkeypatch):
    draw = random.Random(6)
    parts = ["a", "a b", "é", "\n", "\n\n", "\n", " ", "\t", "\u3000", "\x85", "\r"]
    texts = ["".join(draw.choices(parts, k=draw.choice([0, 1, 4, 40]))) for _ in range(800)]
    for limit in (300, 4 << 20):  # bytes of a block
        monkeypatch.setattr(lines, "_BYTES", limit)
        found = lines.counts(pa.array(texts))
        for at, text in enumerate(texts):
            assert {name: int(of[at]) for name, of in found.items()} == lines_of(text), text


def test_a_large_text_in_pieces_is_measured_as_a_whole(monkeypatch):
    draw = random.Random(8)
    parts = ["a line that ends here.", "One more {", "", " ", "\t", "x", "- ALL rights"]
    parts += ["é\u3000日", "\u3000"]
    texts = [
        "\n".join(draw.choices(parts, k=draw.choice([3, 200]))) for _ in range(often(99, less=30))
    ]
    texts += ["\n" + texts[1] + "\n", "\n\n" + texts[1] + "\n\n", "one line " * 80, "a" * 300]
    table = pa.table({"row": np.arange(len(texts)), "text": texts})
    monkeypatch.setattr("duckplets.quality.measure._SAMPLE", 40)
    whole = measure(Database.reader(), table, Quality(language=None)).to_pydict()
    monkeypatch.setattr("duckplets.quality.measure._LARGE", 400)
    monkeypatch.setattr("duckplets.quality.measure._MORSEL_BYTES", 160)
    order = np.random.default_rng(1).permutation(len(texts))  # which changes nothing
    mixed = measure(Database.reader(), table.take(order), Quality(language=None))
    found = mixed.sort_by("row").to_pydict()
    assert [name for name in whole if found[name] != whole[name]] == []
