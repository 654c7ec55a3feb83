"""Text corpora in one DuckDB file, and recipes that turn them into training batches.

    source ─ingest→ records ─→ sections ─chunk→ chunks ─┐
                      └─split→ splits ──────────────────┴─ recipe ─compile→ pool
    pool ─order→ plan ─fetch→ Batch ─save→ cursors

A sample is a pure function of its position in a run. So any batch can be computed again, and a run
resumes anywhere. ``duckplets.reports``, ``.sources``, ``.plugins``, ``.index`` and ``.metrics``
have reports, readers of sources, plug-ins, indexes of records and metrics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; a test compares it with the table below
    from duckplets import errors as errors
    from duckplets import index as index
    from duckplets import metrics as metrics
    from duckplets import plugins as plugins
    from duckplets import reports as reports
    from duckplets import sources as sources
    from duckplets.adapters.evaluation import compare as compare
    from duckplets.adapters.run_log import log_run as log_run
    from duckplets.corpus.corpus import Corpus as Corpus
    from duckplets.corpus.resume import resume as resume
    from duckplets.corpus.run_file import load_run as load_run
    from duckplets.errors import DuckpletsError as DuckpletsError
    from duckplets.errors import EmptyPoolError as EmptyPoolError
    from duckplets.errors import RecipeError as RecipeError
    from duckplets.errors import SamplerError as SamplerError
    from duckplets.errors import SourceError as SourceError
    from duckplets.errors import StateMismatchError as StateMismatchError
    from duckplets.ingest.options import IngestOptions as IngestOptions
    from duckplets.ingest.preview import preview as preview
    from duckplets.ingest.records import IngestReport as IngestReport
    from duckplets.order.mixture import Anneal as Anneal
    from duckplets.order.mixture import Mixture as Mixture
    from duckplets.order.mixture import Phase as Phase
    from duckplets.quality.settings import Quality as Quality
    from duckplets.recipes.files import load_recipes as load_recipes
    from duckplets.recipes.mined import Negatives as Negatives
    from duckplets.recipes.recipes import TextRecipe as TextRecipe
    from duckplets.recipes.recipes import TripletRecipe as TripletRecipe
    from duckplets.recipes.recipes import any_section as any_section
    from duckplets.recipes.recipes import near_date as near_date
    from duckplets.recipes.recipes import position as position
    from duckplets.recipes.recipes import role as role
    from duckplets.recipes.recipes import sql as sql
    from duckplets.runs.forecast import Forecast as Forecast
    from duckplets.runs.request import Options as Options
    from duckplets.runs.sampler import Sampler as Sampler
    from duckplets.samples.batch import Batch as Batch
    from duckplets.search.analyzer_settings import Terms as Terms
    from duckplets.sources.by_path import Source as Source
    from duckplets.sources.collection import Collection as Collection
    from duckplets.sources.custom import CustomSource as CustomSource
    from duckplets.sources.custom import IndexedSource as IndexedSource
    from duckplets.sources.formats.text_file import TextFileSource as TextFileSource
    from duckplets.sources.memory import SqlSource as SqlSource
    from duckplets.text.chunking import Chunking as Chunking
    from duckplets.text.prefix import Field as Field
    from duckplets.text.prefix import Prefix as Prefix
    from duckplets.tokens.batches import TokenBatch as TokenBatch
    from duckplets.tokens.dataset import TokenShards as TokenShards
    from duckplets.tokens.sampler import TokenSampler as TokenSampler
    from duckplets.tokens.train import train_tokenizer as train_tokenizer
    from duckplets.vectors.dense import Dense as Dense

__version__ = "0.2.0"

_HOMES = {
    "adapters.evaluation": "compare",
    "adapters.run_log": "log_run",
    "corpus.corpus": "Corpus",
    "corpus.resume": "resume",
    "corpus.run_file": "load_run",
    "errors": (
        "DuckpletsError EmptyPoolError RecipeError SamplerError SourceError StateMismatchError"
    ),
    "ingest.options": "IngestOptions",
    "ingest.preview": "preview",
    "ingest.records": "IngestReport",
    "order.mixture": "Anneal Mixture Phase",
    "quality.settings": "Quality",
    "recipes.files": "load_recipes",
    "recipes.mined": "Negatives",
    "recipes.recipes": "TextRecipe TripletRecipe any_section near_date position role sql",
    "runs.forecast": "Forecast",
    "runs.request": "Options",
    "runs.sampler": "Sampler",
    "samples.batch": "Batch",
    "search.analyzer_settings": "Terms",
    "sources.by_path": "Source",
    "sources.collection": "Collection",
    "sources.custom": "CustomSource IndexedSource",
    "sources.formats.text_file": "TextFileSource",
    "sources.memory": "SqlSource",
    "text.chunking": "Chunking",
    "text.prefix": "Field Prefix",
    "tokens.batches": "TokenBatch",
    "tokens.dataset": "TokenShards",
    "tokens.sampler": "TokenSampler",
    "tokens.train": "train_tokenizer",
    "vectors.dense": "Dense",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

_MODULES = ("errors", "index", "metrics", "plugins", "reports", "sources")

__all__ = sorted(_HOME_OF)  # a type checker uses the imports above


if not TYPE_CHECKING:  # with it a type checker would accept every misspelt name

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: DuckDB and Arrow take 0.3 s to load."""
        if name in _MODULES:
            return import_module(f"duckplets.{name}")
        if name not in _HOME_OF:
            from duckplets.base.old_names import sentence

            raise AttributeError(
                sentence(f"dp.{name}") or f"module 'duckplets' has no attribute {name!r}"
            )
        value = getattr(import_module(f"duckplets.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
