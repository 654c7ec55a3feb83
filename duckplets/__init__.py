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
    from duckplets.batch import Batch
    from duckplets.chunking import Chunking
    from duckplets.converters import converter_names, register_converter
    from duckplets.corpus import Corpus
    from duckplets.data_index import DataIndex
    from duckplets.data_sets import DataSet, load_data_sets
    from duckplets.denoiser import Denoiser
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
    from duckplets.given import GivenReport
    from duckplets.hub import HubSource, read_hub_list
    from duckplets.index import IndexReport
    from duckplets.index_controls import IndexControls
    from duckplets.index_order import (
        IndexOrder,
        IndexSampler,
        SequentialSampler,
        ShardOptions,
    )
    from duckplets.knobs import Bm25, bm25
    from duckplets.metrics import lexical_similarity, source_skew
    from duckplets.mining_report import MiningReport, PairReport
    from duckplets.mixture import Anneal, Mixture, Phase
    from duckplets.prefix import Field, Prefix
    from duckplets.preprocessors import Preprocessor, register_preprocessor
    from duckplets.recipe_files import load_recipes
    from duckplets.recipes import (
        TextRecipe,
        TripletRecipe,
        any_section,
        near_date,
        position,
        role,
        sql,
    )
    from duckplets.record_metadata import RecordMetadata
    from duckplets.records import IngestReport
    from duckplets.reopen import resume
    from duckplets.sampler import Sampler
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
    from duckplets.terms import Terms

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
    "batch": ("Batch",),
    "chunking": ("Chunking",),
    "converters": ("converter_names", "register_converter"),
    "corpus": ("Corpus",),
    "data_index": ("DataIndex",),
    "data_sets": ("DataSet", "load_data_sets"),
    "denoiser": ("Denoiser",),
    "export": ("ExportReport",),
    "given": ("GivenReport",),
    "hub": ("HubSource", "read_hub_list"),
    "index": ("IndexReport",),
    "index_controls": ("IndexControls",),
    "index_order": ("IndexOrder", "IndexSampler", "SequentialSampler", "ShardOptions"),
    "knobs": ("Bm25", "bm25"),
    "metrics": ("lexical_similarity", "source_skew"),
    "mining_report": ("MiningReport", "PairReport"),
    "mixture": ("Anneal", "Mixture", "Phase"),
    "prefix": ("Field", "Prefix"),
    "preprocessors": ("Preprocessor", "register_preprocessor"),
    "recipe_files": ("load_recipes",),
    "recipes": (
        *("TextRecipe", "TripletRecipe", "any_section", "near_date", "position", "role", "sql"),
    ),
    "record_metadata": ("RecordMetadata",),
    "records": ("IngestReport",),
    "reopen": ("resume",),
    "sampler": ("Sampler",),
    "sources": (
        *("ArrowSource", "CsvSource", "CustomSource", "DatasetSource", "IndexedSource"),
        *("JsonSource", "MemorySource", "PagedSource", "ParquetSource", "Resumable", "SqlSource"),
        *("TextFileSource", "TextLinesSource"),
    ),
    "terms": ("Terms",),
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
