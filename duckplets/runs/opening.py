"""Open runs from the arguments of a sampler, or from a saved run.

request ─→ RunSettings ─read→ pools, texts ─→ streams ─→ planner, fetcher ─→ reader ─→ Sampler
saved run ─┘

A request becomes ``RunSettings``, which resolve everything: recipes of every source, weights, the
corpus version, and the number and digest of each mining. A saved run stores them. Resuming resolves
nothing again, so later imports, minings and recipes change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from duckplets.db.database import Database
from duckplets.errors import EmptyPoolError, SamplerError, StateMismatchError
from duckplets.ingest import prefixes as prefix_store
from duckplets.ingest import records, splits
from duckplets.ingest.chunks import fingerprint as chunking_of
from duckplets.mining import near
from duckplets.order.mixture import Mixture, differences, mixture_of
from duckplets.order.schedule import Events, RunSchedule
from duckplets.pools.batch_keys import WORDS
from duckplets.recipes import store as recipe_store
from duckplets.runs import messages, passes, sources, state, versions
from duckplets.runs.forecast import oddities, omitted, unused_negatives
from duckplets.runs.pool_loading import EmptyPool, NamedByUser, in_words, open_streams
from duckplets.runs.request import RunRequest, renewed
from duckplets.runs.sampler import Sampler
from duckplets.runs.settings import (
    RunSettings,
    changed_options,
    check_overrides,
    overridden,
    plain_of,
    saved_settings,
    schedule_of,
)
from duckplets.runs.state import behind, differing, refuse_mismatch, unsavable
from duckplets.runs.values import with_values
from duckplets.samples.columns import checked_columns
from duckplets.samples.fetch import Fetcher
from duckplets.samples.plan import SINGLE, Planner
from duckplets.samples.prefixes import Prefixes
from duckplets.samples.stream import Stream
from duckplets.samples.token_counts import TokensOf, measured
from duckplets.serving.snapshot import fingerprint, serve, texts_of
from duckplets.serving.texts import Contents
from duckplets.vectors.columns import RunVectors, pinned

_ALL = NamedByUser("error")  # a saved run needs all its pools
# the advice on stale minings, after mining again
_INSTEAD = (
    "; or open the run with negatives=dp.Negatives(by='random'), or use the stale ones with "
    "dp.Negatives(allow_stale=True)"
)


def open_run(database: Database, request: RunRequest, state_path: Path) -> Sampler:
    """Open a new run at its first position."""
    kind, recipes, options, run = request.kind, request.recipes, request.options, request.settings()
    notes = unsavable(state_path, required=options.state is not None)
    run["split"] = splits.checked_split(run["split"])
    run["splits"] = splits.need_splits(database)
    run["chunking"], version = chunking_of(database), records.current_version(database)
    found = recipe_store.sources_of(database, version)
    if not found:
        raise EmptyPoolError(
            f"{database.path} has no sources; ingest some text first: duckplets ingest "
            f"{database.path} FILE"
        )
    mixture, is_crate = request.mixture, options.preset == "crate"
    if mixture is not None:
        if mixture.omitted is None and is_crate:
            mixture = replace(mixture, omitted=1.0)
        where = {"split": run["split"], "version": version}
        mixture, of_values = with_values(database, mixture, where)
        mixture.check(mixture.values or [*found])
        notes += of_values
    usual = Mixture("equal" if is_crate else "proportional")
    deal = partial(sources.shares, database, split=run["split"], version=version, usual=usual)
    run["pairs"] = None
    if kind == "labelled_pairs":
        drawn = deal(mixture, found).mixture.needed([*found])
        run["pairs"] = sources.which_pairs(database, drawn, version)
    if run["pairs"] == "labelled":
        sources.check_labelled(database, run, mixture, version)
    run["mixture"] = mixture
    resolved = sources.resolved(
        *(database, recipes, run, version), long_sections=options.long_sections, sources=found
    )
    by_source, optional = dict[str, Sequence[Any]](), dict[str, list[str]]()
    for one in resolved:
        by_source[one.source] = one.recipes
        if one.optional:
            optional[one.source] = sorted(one.optional)
    if len(by_source) < len(found):  # the rest has no labels, or no conversations
        found = {name: found[name] for name in by_source}
        mixture = mixture and mixture.of_known(mixture.values or found)
    mixed, names = deal(mixture, found), sorted(by_source)
    if mixed.mixture is not usual:
        mixed.mixture.check(mixed.mixture.values or names)
    notes += [*mixed.notes, *omitted(mixed.mixture, mixed.mixture.values or names)]
    also = ["padded"] if run["remainder"] == "pad" else []
    if kind == "messages" and messages.has_pairs(database, names, version):
        also.append("rejected_messages")
    columns = checked_columns(request.columns, kind, request.negatives.num or 0, also)
    path = Path(str(database.path))
    run |= {
        "recipes": by_source,
        "optional": optional,
        "sources": names,
        "mixture": mixed.mixture,
        "columns": columns,
        "vectors": pinned(path, columns, options.missing_vectors),
        "corpus_version": version,
        "records": fingerprint(database, version),
        "declared_prefixes": prefix_store.declared(database, version),
        "index": mixed.index,
    }
    settings = RunSettings(**run)
    stale = request.negatives.allow_stale
    settings = replace(settings, ranked=sources.ranked_pins(database, settings, allow_stale=stale))
    if kind not in (*SINGLE, "pairs"):
        pins = sources.pins(database, settings, allow_stale=stale, instead=_INSTEAD)
        settings = replace(settings, candidates=pins)
        if settings.negatives.by is not None:
            notes += sources.notes_on_mined(database, settings)
        if settings.negatives.in_batch_margin is not None:
            in_batch = sources.near_pins(database, settings, allow_stale=stale)
            settings = replace(settings, in_batch=in_batch)
    given_names = {recipe.name for one in by_source.values() for recipe in one} if recipes else ()
    named = NamedByUser(options.empty, mixture.named if mixture else (), given_names)
    return _opened(
        *(database, settings, {}, state_path, notes), named=named, snapshot=options.snapshot
    )


def resume_run(
    database: Database,
    run: str,
    tag: str | None,
    state_path: Path,
    *,
    save_to: Path | None,
    allow_drift: Collection[str],
    overrides: Mapping[str, Any],
    version: versions.Version = None,
    snapshot: str | Path | None = None,
) -> Sampler:
    """Open a saved run at its saved position; see ``duckplets.resume``."""
    check_overrides(overrides)
    options = changed_options(overrides)
    saved = state.load(state_path, run, tag)
    before, position = saved_settings(saved), saved.position
    joining = versions.checked_version(database, before, version, position)
    last, negatives = before.versions[-1], None
    if "negatives" in overrides:
        negatives = renewed(last.negatives, overrides["negatives"])
        if negatives.chosen != last.negatives.chosen:  # another choice changes later samples
            joining = last.corpus_version if joining is None else joining
    came = {} if joining is None else recipe_store.sources_of(database, joining)
    names = [*dict.fromkeys([*last.sources, *came])]
    settings = overridden(before, _resolved_overrides(database, before, overrides, names))
    now = replace(
        versions.as_found(database, settings, options.get("missing_vectors")),
        splits=splits.splits_in_use(database),
        chunking=chunking_of(database),
    )
    notes = unsavable(save_to or state_path, required=save_to is not None)
    edited = edited_in(saved, before, now, allow_drift)
    if joining is not None:
        recipes = overrides.get("recipes")
        now = versions.with_version(
            *(database, now, joining),
            position=position,
            events=saved.events,
            recipes=recipes,
            negatives=negatives,
        )
    also = set[str]()
    if edited and now.no_duplicates and now.epochs:
        also = schedule_of(replace(now, mixture=before.mixture), saved.events).planned
    sampler = _opened(
        *(database, now, saved.events, save_to or state_path, notes),
        position=position,
        also=also,
        snapshot=snapshot,
    )
    with closed_on_error(sampler):
        was = replace(sampler.settings, mixture=before.mixture)
        if (joins := sampler.settings.joins) != before.joins:  # what joins has minings of its own
            step = joins[-1].step
            saved = replace(saved, minings=tuple(one for one in saved.minings if one[0] < step))
        continue_saved(sampler, saved, edited, partial(schedule_of, was))
        sampler.unused = sources.unused_minings(database, now, sampler.planner.streams)
        if not now.rank:
            sampler.notes += unused_negatives(sampler.unused)
        if joining is not None:
            versions.note_joins(database, sampler, before)
    return sampler


def reopened(database: Database, saved: state.Save, state_path: Path) -> Sampler:
    """Open a saved run on a rebuilt corpus without a state file."""
    settings = versions.as_found(database, saved_settings(saved), None)
    sampler = _opened(database, settings, saved.events, state_path, [], position=saved.position)
    with closed_on_error(sampler):
        sampler.continue_from(saved)
    return sampler


def _resolved_overrides(
    database: Database, settings: RunSettings, overrides: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    unset = ("recipes", "mixture")
    changed = {n: v for n, v in overrides.items() if not (n in unset and v is None)}
    if "split" in changed:
        changed["split"] = splits.checked_split(changed["split"])
    if "mixture" in changed:
        changed["mixture"] = mixture = settings.mixture.as_before(mixture_of(changed["mixture"]))
        mixture.check(mixture.values or names)
    if "recipes" in changed:
        also = [recipe for recipes in settings.recipes.values() for recipe in recipes]
        resolved = sources.resolved(
            database, changed["recipes"], vars(settings), settings.corpus_version, also=also
        )
        changed["recipes"] = {of_source.source: of_source.recipes for of_source in resolved}
    return changed


def edited_in(
    saved: state.Save, before: RunSettings, now: RunSettings, allow_drift: Collection[str]
) -> str:
    """Return the changes of a saved run's mixture in words; refuse other changes."""
    edited = ""
    if now.mixture != before.mixture and "mixture" not in allow_drift:
        # an equal word gives no difference in words; it is resolved later
        edited = differences(before.mixture, now.mixture) or "the meaning of its word"
    found = now.fingerprint()
    refuse_mismatch(
        saved.fingerprint,
        found,
        allow_drift=allow_drift,
        described={} if found == saved.fingerprint else differing(saved.settings, plain_of(now)),
        edited={"mixture": edited} if edited else {},
    )
    return edited


@contextmanager
def closed_on_error(sampler: Sampler) -> Iterator[None]:
    """Close a sampler that cannot be completed."""
    try:
        yield
    except BaseException:
        sampler.close()
        raise


def continue_saved(
    sampler: Sampler, saved: state.Save, edited: str, schedule: Callable[[Events], RunSchedule]
) -> None:
    """Continue a saved run; refuse a change of samples before its position."""
    if edited:
        before, batch = schedule(saved.events), sampler.settings.global_batch
        changed, step = sampler.first_change(before), -(-saved.position // batch)
        sampler.changed_from = changed
        if changed < saved.position:
            raise StateMismatchError(
                f"this mixture would change samples from step {changed // batch}, but the run "
                f"is at step {step}; use set_weights or a Phase from step {step}. Changes: {edited}"
            )
    settings, end = sampler.settings, sampler.reader.end
    bounds = saved.settings["steps"], saved.settings["epochs"]
    if end is not None and saved.position > end and bounds == (settings.steps, settings.epochs):
        passes.begin(sampler, passes.at(sampler, saved.position))
    sampler.continue_from(saved)


def _opened(
    database: Database,
    settings: RunSettings,
    events: Events,
    state_path: Path,
    notes: Sequence[str],
    *,
    position: int = 0,
    also: Collection[str] = (),
    named: NamedByUser = _ALL,
    snapshot: str | Path | None = None,
) -> Sampler:
    """Open a run at its first position; ``also`` has sources whose pools are always needed."""
    newest, path, by = settings.versions[-1], Path(str(database.path)), settings.batch_by
    mixture = settings.mixture
    if by is not None and (mixture.columns or (mixture.order_by and by not in WORDS[:2])):
        raise SamplerError(
            f"batch_by={by!r}: batches of one key exclude shares or an order by a column; leave "
            f"out one of them"
        )
    contents: Contents = "conversations" if settings.kind == "messages" else "chunks"
    folder = None if snapshot is None else Path(os.path.realpath(snapshot))
    vectors = None
    if newest.vectors:
        vectors = RunVectors(path, newest.vectors, settings.columns, folder)
    served, serve_notes = serve(
        database, newest.corpus_version, contents, settings.chunking, folder
    )
    read = partial(open_streams, database, vectors, served)
    with closing(database.cursor()) as reading, ThreadPoolExecutor(1) as background:
        reads = background.submit(texts_of, served, reading, contents, settings.chunking)
        read = partial(_measured, read, lambda keys: reads.result().tokens(keys))
        settings, planner, empty = versions.planned(
            database, settings, events, read, position, also=also, named=named
        )
        texts = reads.result()
    if settings.no_duplicates:
        _refuse_unfillable(settings, planner, position)
    prefixes = None
    if settings.prefixed:
        prefixes = Prefixes(database, versions.prefixes_of(database, settings), settings.seed)
    if settings.joins and vectors is not None:
        parts = zip(settings.versions, settings.joins, strict=False)
        batch = settings.global_batch
        vectors.join((join.step * batch, version.vectors) for version, join in parts)
    parse = None
    if contents == "conversations":
        shape = messages.shape_of(database, newest.corpus_version)
        parse = messages.MessageParser(shape, settings.columns)
    fetcher = Fetcher(
        database,
        planner.streams,
        kind=settings.kind,
        negatives=settings.num,
        columns=settings.columns,
        texts=texts,
        folder=served.folder if served else None,
        prefixes=prefixes,
        vectors=vectors,
        parse=parse,
        padded_from=settings.padded_from(planner.epoch_start),
    )
    open_source = partial(versions.add_source, settings, planner, read)
    minings = partial(versions.read_minings, database, read)
    sampler = Sampler(settings, planner, fetcher, state_path, open_source, minings)
    sampler.database = database
    if not settings.rank:
        excluded = [f"left out, since they have no anchor: {in_words(empty)}"] if empty else []
        saved = []
        if state_path.exists():
            saved = behind(settings.run, settings.fingerprint(), state_path, position)
        sampler.notes += [*notes, *excluded, *saved, *serve_notes, *oddities(planner.newest)]
        if newest.in_batch:
            sampler.notes += near.warnings(planner.streams, newest.in_batch)
        sampler.notes += [] if vectors is None else vectors.notes
    return sampler


def _measured(
    read: versions.Read, tokens_of: TokensOf, settings: RunSettings, names: Collection[str]
) -> tuple[list[Stream], list[EmptyPool]]:
    """Read streams; if shares are of tokens, count the tokens of their samples."""
    streams, empty = read(settings, names)
    by_tokens = settings.mixture.unit == "tokens"
    return measured(streams, tokens_of) if by_tokens else streams, empty


def _refuse_unfillable(settings: RunSettings, planner: Planner, position: int) -> None:
    batch, schedule = settings.global_batch, planner.schedule
    if settings.no_duplicates == "negatives":
        end = planner.parts[0].end
        planner.plan(0, batch if end is None else min(end, batch))
    step = position // batch
    later = (change for change in schedule.changes if change > step)
    planner.check(schedule, [step, *later], planner.end(settings.end))
