"""Mined negatives as they are drawn: legal, each in its turn, told by method, score and rank."""

import zlib
from collections import defaultdict
from itertools import pairwise

import pytest
from corpora import negative_slots, samples
from effort import often, some
from mined_corpora import CASES, guarded_corpus, pieces_of, rules_of, some_candidates, write_mining

import duckplets as dp

ONE = {"s0": 1}  # draw from source s0 alone


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    corpora = {n: guarded_corpus(folder / f"{n}.duckdb", n, n) for n in (24, 60)}
    yield corpora
    for corpus in corpora.values():
        corpus.close()


def recipe_of(name, by="bm25", **more):
    """One of ``CASES``, under a name of its own for each way to draw."""
    called = f"{name} {zlib.crc32(repr((by, more)).encode())}"
    return dp.TripletRecipe(called, **CASES[name]["recipe"], by=by, **more)


def columns_of(negatives):
    slots = negative_slots(negatives)
    columns = ["anchor", "anchor_record_id", "anchor_section", "positive", "negative_by", "source"]
    for slot in slots:
        columns += [slot, f"{slot}_record_id", f"{slot}_section", f"{slot}_by", f"{slot}_score"]
        columns += [f"{slot}_rank"]
    return list(dict.fromkeys(columns))


def plain_rules(corpus, name):
    return rules_of(corpus, CASES[name], "s0", "train")


def sampled(corpus, recipe, rows, negatives=1, **more):
    """Open a run of source s0, for which these candidates were mined."""
    write_mining(corpus, recipe, rows)
    arguments = {
        "mixture": ONE,
        "columns": columns_of(negatives),
        "options": dp.Options(swap=False),
    } | more
    return corpus.sampler(recipes=[recipe], negatives=negatives, **arguments)


@pytest.mark.parametrize(
    ("name", "size", "negatives"),
    some([(name, *size) for name in CASES for size in ((24, 1), (60, 4))], less=2),
)
def test_negatives_are_legal_whatever_was_mined(corpora, name, size, negatives):
    corpus = corpora[size]
    rules, pieces = plain_rules(corpus, name), pieces_of(corpus)
    windows = defaultdict(list)
    for p in pieces:
        windows[p.record_id, p.position, p.text].append(p)

    def windows_of(row, slot):
        return windows[row[f"{slot}_record_id"], row[f"{slot}_section"], row[slot]]

    slots = negative_slots(negatives)
    for seed, by in enumerate(["bm25", dp.Negatives(by="bm25", sampling="score")]):
        # Sections of any record, split and source stand among the candidates.
        rows = some_candidates(rules, seed, careless=pieces)
        sampler = sampled(corpus, recipe_of(name, by), rows, negatives, seed=seed, batch_size=40)
        count = often(6, less=2) * sampler.epoch_length
        mined = 0
        for row in samples(sampler, count):
            texts = [row["anchor"], row["positive"], *(row[slot] for slot in slots)]
            assert len(set(texts[2:])) == negatives
            assert not set(texts[2:]) & set(texts[:2])
            anchors = [a for a in windows_of(row, "anchor") if rules.is_anchor(a)]
            candidates = dict(rows.get(anchors[0].section, ()))
            for slot in slots:
                found = windows_of(row, slot)
                assert any(rules.may(a, n) for a in anchors for n in found), row
                told = (row[f"{slot}_by"], row[f"{slot}_score"], row[f"{slot}_rank"])
                if told[0] == "bm25":
                    mined += 1
                    section = found[0].section
                    assert told[1:] == (candidates[section], list(candidates).index(section) + 1)
                else:
                    assert told == ("bm25_fallback", None, None)
            assert row["negative_by"] == max(row[f"{slot}_by"] for slot in slots)
        assert 0 < mined < count * negatives
        metrics = sampler.metrics()
        assert 0 < metrics["data/s0/fallbacks"] < metrics["data/s0/samples"] * negatives


def visits_to_sections(rows, negatives):
    """The ranks that came at every visit to an anchor's section."""
    visits = defaultdict(list)
    for row in rows:
        ranks = [row[f"{slot}_rank"] for slot in negative_slots(negatives)]
        visits[row["anchor_record_id"], row["anchor_section"]].append(ranks)
    return visits


def legal_rows(rules, seed, most=9):
    """Candidates of different texts that are legal in every window: none gives way."""
    texts = defaultdict(set)
    for p in rules.pieces:
        texts[p.section].add(p.text)
    rows = {}
    for section, candidates in some_candidates(rules, seed, most=most).items():
        seen = set()
        kept = []
        for n, score in candidates:
            if not seen & texts[n]:
                seen |= texts[n]
                kept.append((n, score))
        rows[section] = kept
    return rows


@pytest.mark.parametrize("name", some(["plain", "any", "topic"], less=1))
@pytest.mark.parametrize(("negatives", "rotation"), some([(2, 99), (1, 99), (3, 4)], less=2))
def test_rotation_uses_every_candidate_in_its_turn(corpora, name, negatives, rotation):
    corpus = corpora[60]
    rules = plain_rules(corpus, name)
    recipe = recipe_of(name, dp.Negatives(by="bm25", range_max=rotation), weight=negatives)
    rows = legal_rows(rules, negatives)
    sampler = sampled(corpus, recipe, rows, negatives, batch_size=50)
    places = {(p.record_id, p.position): p.section for p in rules.pieces}
    visits = visits_to_sections(
        samples(sampler, often(20, less=12) * sampler.epoch_length), negatives
    )
    starts = set()
    for place, ranks in visits.items():
        count = min(len(rows.get(places[place], ())), rotation)
        if count >= negatives:
            starts.add(ranks[0][0])
            cycle = -(-count // negatives)
            for visit in range(len(ranks) - cycle + 1):
                turn = [rank for of_visit in ranks[visit : visit + cycle] for rank in of_visit]
                assert set(turn) == set(range(1, count + 1)), (place, visit, turn)
            for one, other in pairwise(ranks):
                assert other[0] == (one[0] - 1 + negatives) % count + 1
        else:
            assert all(None in of_visit for of_visit in ranks)
    assert len(starts) > 2, "every section begins with the same one"


def test_scores_weigh_draws_that_repeat_nothing_within_a_sample(corpora):
    corpus = corpora[60]
    rules = plain_rules(corpus, "plain")
    recipe = recipe_of("plain", dp.Negatives(by="bm25", sampling="score", range_max=5))
    rows = {
        anchor: [(n, float(len(of) - i)) for i, (n, _) in enumerate(of)]
        for anchor, of in legal_rows(rules, 4).items()
    }
    sampler = sampled(corpus, recipe, rows, 3)
    places = {(p.record_id, p.position): p.section for p in rules.pieces}
    visits = visits_to_sections(samples(sampler, 100 * sampler.epoch_length), 3)
    firsts = defaultdict(list)
    for place, ranks in visits.items():
        every = len(rows.get(places[place], ()))
        count = min(every, 5)
        for of_visit in ranks:
            known = [rank for rank in of_visit if rank is not None]
            assert len(set(known)) == len(known) == min(count, 3)
            assert set(known) <= set(range(1, count + 1))
            firsts[every] += of_visit[:1]
        assert len({tuple(of_visit) for of_visit in ranks}) > 3 or count < 3
    assert max(map(len, firsts.values())) > 500
    for every, found in firsts.items():  # each as often as its share of the scores
        weights = [every - i for i in range(min(every, 5))]
        for rank, weight in enumerate(weights, 1) if len(found) > 500 else ():
            share = found.count(rank) / len(found)
            assert abs(share - weight / sum(weights)) < 0.06, (every, rank)


def test_several_scorers_are_drawn_by_exact_shares(corpora):
    corpus = corpora[60]
    rules = plain_rules(corpus, "plain")
    recipe = dp.TripletRecipe("several", **CASES["plain"]["recipe"])
    for seed, scorer in enumerate(["bm25", "dense"]):
        rows = {a: of for a, of in legal_rows(rules, seed).items() if of}
        write_mining(corpus, recipe, rows, scorer=scorer)
    how = {"recipes": [recipe], "mixture": ONE, "columns": columns_of(1)}
    shares = {"bm25": 0.5, "dense": 0.25, "random": 0.25}
    sampler = corpus.sampler(**how, batch_size=50, negatives=dp.Negatives(by=shares))
    found = list(samples(sampler, 400))
    ways = [row["negative_by"] for row in found]
    mined = {way: ways.count(way) for way in (*shares, "mined_fallback")}
    assert mined["random"] == 100
    assert mined["bm25"] + mined["dense"] + mined["mined_fallback"] == 300
    assert 0 < mined["dense"] < mined["bm25"] <= 200
    for scorer in ("bm25", "dense"):
        alone = {
            (r["anchor_record_id"], r["negative"]) for r in found if r["negative_by"] == scorer
        }
        only = corpus.sampler(**how, batch_size=50, negatives=dp.Negatives(by=scorer))
        rows = samples(only, 20 * only.epoch_length)
        assert alone <= {(r["anchor_record_id"], r["negative"]) for r in rows}
    with pytest.raises(dp.StateMismatchError, match="bm25, dense have candidates; choose one"):
        corpus.sampler(**how, batch_size=50)


def test_anchors_without_candidates_draw_at_random_and_say_so(corpora):
    found = list(
        samples(
            sampled(corpora[24], recipe_of("plain", dp.Negatives(by="bm25", range_max=4)), {}, 2),
            500,
        )
    )
    assert {row["negative_by"] for row in found} == {"bm25_fallback"}
    assert len({row["negative_1"] for row in found}) > 10
