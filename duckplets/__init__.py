"""Text corpora in one DuckDB file, and recipes that turn them into training batches.

    source ─ingest→ records ─→ sections ─chunk→ chunks ─┐
                      └─split→ splits ──────────────────┴─ recipe ─compile→ pool
    pool ─order→ plan ─fetch→ Batch ─save→ cursors

A sample is a pure function of its position in a run: any batch can be computed again, and a run
resumes anywhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckplets.corpus import Corpus
    from duckplets.errors import (
        ChunkingError,
        CorpusLockedError,
        DuckpletsError,
        EmptyPoolError,
        ExtensionError,
        MigrationError,
        MixtureError,
        QueryError,
        RecipeError,
        SamplerError,
        SourceError,
        SplitError,
        StateMismatchError,
    )
    from duckplets.export import ExportReport
    from duckplets.ingest.records import IngestReport
    from duckplets.mining.external import GivenReport
    from duckplets.mining.report import MiningReport, PairReport
    from duckplets.order.mixture import Anneal, Mixture, Phase
    from duckplets.recipes.bm25 import Bm25, bm25
    from duckplets.recipes.files import load_recipes
    from duckplets.recipes.recipes import (
        TextRecipe,
        TripletRecipe,
        any_section,
        near_date,
        position,
        role,
        sql,
    )
    from duckplets.records.controls import IndexControls
    from duckplets.records.data_index import DataIndex
    from duckplets.records.data_sets import DataSet, load_data_sets
    from duckplets.records.metadata import RecordMetadata
    from duckplets.records.order import (
        IndexOrder,
        IndexSampler,
        SequentialSampler,
        ShardOptions,
    )
    from duckplets.reopen import resume
    from duckplets.sampling.batch import Batch
    from duckplets.sampling.metrics import lexical_similarity, source_skew
    from duckplets.sampling.sampler import Sampler
    from duckplets.search.index import IndexReport
    from duckplets.search.terms import Terms
    from duckplets.sources import (
        ArrowSource,
        CsvSource,
        CustomSource,
        DatasetSource,
        IndexedSource,
        JsonSource,
        MemorySource,
        PagedSource,
        ParquetSource,
        Resumable,
        SqlSource,
        TextFileSource,
        TextLinesSource,
    )
    from duckplets.sources.converters import converter_names, register_converter
    from duckplets.sources.hub import HubSource, read_hub_list
    from duckplets.text.chunking import Chunking
    from duckplets.text.denoiser import Denoiser
    from duckplets.text.prefix import Field, Prefix
    from duckplets.text.preprocessors import Preprocessor, register_preprocessor

__version__ = "0.1.0"

__all__ = [
    "Anneal",
    "ArrowSource",
    "Batch",
    "Bm25",
    "Chunking",
    "ChunkingError",
    "Corpus",
    "CorpusLockedError",
    "CsvSource",
    "CustomSource",
    "DataIndex",
    "DataSet",
    "DatasetSource",
    "Denoiser",
    "DuckpletsError",
    "EmptyPoolError",
    "ExportReport",
    "ExtensionError",
    "Field",
    "GivenReport",
    "HubSource",
    "IndexControls",
    "IndexOrder",
    "IndexReport",
    "IndexSampler",
    "IndexedSource",
    "IngestReport",
    "JsonSource",
    "MemorySource",
    "MigrationError",
    "MiningReport",
    "Mixture",
    "MixtureError",
    "PagedSource",
    "PairReport",
    "ParquetSource",
    "Phase",
    "Prefix",
    "Preprocessor",
    "QueryError",
    "RecipeError",
    "RecordMetadata",
    "Resumable",
    "Sampler",
    "SamplerError",
    "SequentialSampler",
    "ShardOptions",
    "SourceError",
    "SplitError",
    "SqlSource",
    "StateMismatchError",
    "Terms",
    "TextFileSource",
    "TextLinesSource",
    "TextRecipe",
    "TripletRecipe",
    "any_section",
    "bm25",
    "converter_names",
    "lexical_similarity",
    "load_data_sets",
    "load_recipes",
    "near_date",
    "position",
    "read_hub_list",
    "register_converter",
    "register_preprocessor",
    "resume",
    "role",
    "source_skew",
    "sql",
]

_HOMES = {
    "sampling.batch": ("Batch",),
    "text.chunking": ("Chunking",),
    "sources.converters": ("converter_names", "register_converter"),
    "corpus": ("Corpus",),
    "records.data_index": ("DataIndex",),
    "records.data_sets": ("DataSet", "load_data_sets"),
    "text.denoiser": ("Denoiser",),
    "export": ("ExportReport",),
    "mining.external": ("GivenReport",),
    "sources.hub": ("HubSource", "read_hub_list"),
    "search.index": ("IndexReport",),
    "records.controls": ("IndexControls",),
    "records.order": ("IndexOrder", "IndexSampler", "SequentialSampler", "ShardOptions"),
    "recipes.bm25": ("Bm25", "bm25"),
    "sampling.metrics": ("lexical_similarity", "source_skew"),
    "mining.report": ("MiningReport", "PairReport"),
    "order.mixture": ("Anneal", "Mixture", "Phase"),
    "text.prefix": ("Field", "Prefix"),
    "text.preprocessors": ("Preprocessor", "register_preprocessor"),
    "recipes.files": ("load_recipes",),
    "recipes.recipes": (
        *("TextRecipe", "TripletRecipe", "any_section", "near_date", "position", "role", "sql"),
    ),
    "records.metadata": ("RecordMetadata",),
    "ingest.records": ("IngestReport",),
    "reopen": ("resume",),
    "sampling.sampler": ("Sampler",),
    "sources": (
        *("ArrowSource", "CsvSource", "CustomSource", "DatasetSource", "IndexedSource"),
        *("JsonSource", "MemorySource", "PagedSource", "ParquetSource", "Resumable", "SqlSource"),
        *("TextFileSource", "TextLinesSource"),
    ),
    "search.terms": ("Terms",),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: DuckDB and Arrow take 0.3 s to load."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'duckplets' has no attribute {name!r}")
    value = getattr(import_module(f"duckplets.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
