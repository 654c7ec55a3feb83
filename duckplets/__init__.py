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

if TYPE_CHECKING:  # what a type checker goes by; a test compares it with the table below
    from duckplets.adapters.evaluation import Comparison as Comparison
    from duckplets.adapters.evaluation import compare as compare
    from duckplets.adapters.run_log import log_run as log_run
    from duckplets.corpus.compact import CompactReport as CompactReport
    from duckplets.corpus.corpus import Corpus as Corpus
    from duckplets.corpus.maintenance import PrepareReport as PrepareReport
    from duckplets.corpus.resume import resume as resume
    from duckplets.corpus.run_file import load_run as load_run
    from duckplets.errors import ChangedFileError as ChangedFileError
    from duckplets.errors import ChunkingError as ChunkingError
    from duckplets.errors import CorpusLockedError as CorpusLockedError
    from duckplets.errors import DamagedFileError as DamagedFileError
    from duckplets.errors import DeadlineError as DeadlineError
    from duckplets.errors import DuckpletsError as DuckpletsError
    from duckplets.errors import EmptyPoolError as EmptyPoolError
    from duckplets.errors import EngineError as EngineError
    from duckplets.errors import ExtensionError as ExtensionError
    from duckplets.errors import MigrationError as MigrationError
    from duckplets.errors import MissingFileError as MissingFileError
    from duckplets.errors import MixtureError as MixtureError
    from duckplets.errors import PassingError as PassingError
    from duckplets.errors import QualityError as QualityError
    from duckplets.errors import QueryError as QueryError
    from duckplets.errors import ReadOnlyError as ReadOnlyError
    from duckplets.errors import RecipeError as RecipeError
    from duckplets.errors import SamplerError as SamplerError
    from duckplets.errors import ShardError as ShardError
    from duckplets.errors import SourceError as SourceError
    from duckplets.errors import SplitError as SplitError
    from duckplets.errors import StateMismatchError as StateMismatchError
    from duckplets.errors import VectorError as VectorError
    from duckplets.export import ExportReport as ExportReport
    from duckplets.export.hub import PushReport as PushReport
    from duckplets.ingest.preview import Preview as Preview
    from duckplets.ingest.preview import preview as preview
    from duckplets.ingest.records import IngestReport as IngestReport
    from duckplets.ingest.splits import SplitReport as SplitReport
    from duckplets.mining.external import GivenReport as GivenReport
    from duckplets.mining.report import MiningReport as MiningReport
    from duckplets.mining.report import PairReport as PairReport
    from duckplets.order.mixture import Anneal as Anneal
    from duckplets.order.mixture import Mixture as Mixture
    from duckplets.order.mixture import Phase as Phase
    from duckplets.quality.decontaminate import DecontaminationReport as DecontaminationReport
    from duckplets.quality.explain import Shifts as Shifts
    from duckplets.quality.judge import JudgeReport as JudgeReport
    from duckplets.quality.near_dedup import NearReport as NearReport
    from duckplets.quality.plugins import register_detector as register_detector
    from duckplets.quality.plugins import register_gate as register_gate
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
    from duckplets.records.data_index import DataIndex as DataIndex
    from duckplets.records.data_sets import DataSet as DataSet
    from duckplets.records.data_sets import load_data_sets as load_data_sets
    from duckplets.records.index_controls import IndexControls as IndexControls
    from duckplets.records.order import IndexOrder as IndexOrder
    from duckplets.records.order import IndexSampler as IndexSampler
    from duckplets.records.order import RecordMetadata as RecordMetadata
    from duckplets.records.order import SequentialSampler as SequentialSampler
    from duckplets.records.order import ShardOptions as ShardOptions
    from duckplets.report import ReportPage as ReportPage
    from duckplets.runs.forecast import Forecast as Forecast
    from duckplets.runs.metrics import lexical_similarity as lexical_similarity
    from duckplets.runs.metrics import source_skew as source_skew
    from duckplets.runs.request import Options as Options
    from duckplets.runs.sampler import Sampler as Sampler
    from duckplets.samples.batch import Batch as Batch
    from duckplets.search.analyzer_settings import Terms as Terms
    from duckplets.search.index import IndexReport as IndexReport
    from duckplets.search.segmenters import Segmenter as Segmenter
    from duckplets.search.segmenters import register_words as register_words
    from duckplets.sources.converters.registry import converter_names as converter_names
    from duckplets.sources.converters.registry import register_converter as register_converter
    from duckplets.sources.custom.indexed import IndexedSource as IndexedSource
    from duckplets.sources.custom.protocol import CustomSource as CustomSource
    from duckplets.sources.custom.protocol import PagedSource as PagedSource
    from duckplets.sources.formats.columnar import ArrowSource as ArrowSource
    from duckplets.sources.formats.columnar import ParquetSource as ParquetSource
    from duckplets.sources.formats.csv_file import CsvSource as CsvSource
    from duckplets.sources.formats.json_file import JsonSource as JsonSource
    from duckplets.sources.formats.text_file import TextFileSource as TextFileSource
    from duckplets.sources.formats.text_file import TextLinesSource as TextLinesSource
    from duckplets.sources.limits import Limits as Limits
    from duckplets.sources.memory import DatasetSource as DatasetSource
    from duckplets.sources.memory import MemorySource as MemorySource
    from duckplets.sources.memory import SqlSource as SqlSource
    from duckplets.sources.remote.hub import HubSource as HubSource
    from duckplets.sources.remote.hub import read_hub_list as read_hub_list
    from duckplets.text.chunkers import Chunker as Chunker
    from duckplets.text.chunkers import register_chunker as register_chunker
    from duckplets.text.chunking import Chunking as Chunking
    from duckplets.text.denoiser import Denoiser as Denoiser
    from duckplets.text.normaliser import Normaliser as Normaliser
    from duckplets.text.prefix import Field as Field
    from duckplets.text.prefix import Prefix as Prefix
    from duckplets.text.preprocessors import Preprocessor as Preprocessor
    from duckplets.text.preprocessors import register_preprocessor as register_preprocessor
    from duckplets.tokens.batches import TokenBatch as TokenBatch
    from duckplets.tokens.dataset import TokenShards as TokenShards
    from duckplets.tokens.mixtures import load_mixture as load_mixture
    from duckplets.tokens.sampler import TokenSampler as TokenSampler
    from duckplets.tokens.shards import ShardReport as ShardReport
    from duckplets.tokens.train import TokenizerReport as TokenizerReport
    from duckplets.tokens.train import train_tokenizer as train_tokenizer
    from duckplets.tokens.verify import VerifyReport as VerifyReport
    from duckplets.tokens.verify import verify as verify
    from duckplets.vectors.add import AddedVectors as AddedVectors
    from duckplets.vectors.dense import Dense as Dense
    from duckplets.vectors.dense import dense as dense
    from duckplets.vectors.embed import EmbedReport as EmbedReport

__version__ = "0.2.0"

_HOMES = {
    "adapters.evaluation": "Comparison compare",
    "adapters.run_log": "log_run",
    "corpus.compact": "CompactReport",
    "corpus.corpus": "Corpus",
    "errors": (
        "ChangedFileError ChunkingError CorpusLockedError DamagedFileError DeadlineError "
        "DuckpletsError "
        "EmptyPoolError "
        "ExtensionError MigrationError MissingFileError MixtureError PassingError "
        "QualityError QueryError ReadOnlyError "
        "RecipeError SamplerError ShardError EngineError "
        "SourceError SplitError StateMismatchError VectorError"
    ),
    "export": "ExportReport",
    "export.hub": "PushReport",
    "ingest.preview": "Preview preview",
    "ingest.records": "IngestReport",
    "ingest.splits": "SplitReport",
    "mining.external": "GivenReport",
    "mining.report": "MiningReport PairReport",
    "order.mixture": "Anneal Mixture Phase",
    "quality.plugins": "register_detector register_gate",
    "quality.judge": "JudgeReport",
    "quality.settings": "Quality",
    "quality.explain": "Shifts",
    "recipes.mined": "Negatives",
    "recipes.files": "load_recipes",
    "recipes.recipes": "TextRecipe TripletRecipe any_section near_date position role sql",
    "quality.decontaminate": "DecontaminationReport",
    "quality.near_dedup": "NearReport",
    "records.index_controls": "IndexControls",
    "records.data_index": "DataIndex",
    "records.data_sets": "DataSet load_data_sets",
    "records.order": "IndexOrder IndexSampler RecordMetadata SequentialSampler ShardOptions",
    "corpus.maintenance": "PrepareReport",
    "corpus.resume": "resume",
    "corpus.run_file": "load_run",
    "report": "ReportPage",
    "samples.batch": "Batch",
    "runs.forecast": "Forecast",
    "runs.metrics": "lexical_similarity source_skew",
    "runs.request": "Options",
    "runs.sampler": "Sampler",
    "search.index": "IndexReport",
    "search.analyzer_settings": "Terms",
    "search.segmenters": "Segmenter register_words",
    "sources.formats.columnar": "ArrowSource ParquetSource",
    "sources.converters.registry": "converter_names register_converter",
    "sources.formats.csv_file": "CsvSource",
    "sources.remote.hub": "HubSource read_hub_list",
    "sources.formats.json_file": "JsonSource",
    "sources.limits": "Limits",
    "sources.memory": "DatasetSource MemorySource SqlSource",
    "sources.formats.text_file": "TextFileSource TextLinesSource",
    "sources.custom.protocol": "CustomSource PagedSource",
    "sources.custom.indexed": "IndexedSource",
    "text.chunkers": "Chunker register_chunker",
    "text.chunking": "Chunking",
    "text.denoiser": "Denoiser",
    "text.normaliser": "Normaliser",
    "text.prefix": "Field Prefix",
    "text.preprocessors": "Preprocessor register_preprocessor",
    "tokens.batches": "TokenBatch",
    "tokens.mixtures": "load_mixture",
    "tokens.dataset": "TokenShards",
    "tokens.sampler": "TokenSampler",
    "tokens.shards": "ShardReport",
    "tokens.train": "TokenizerReport train_tokenizer",
    "tokens.verify": "VerifyReport verify",
    "vectors.add": "AddedVectors",
    "vectors.dense": "Dense dense",
    "vectors.embed": "EmbedReport",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)  # a type checker goes by the imports above


if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: DuckDB and Arrow take 0.3 s to load."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'duckplets' has no attribute {name!r}")
        value = getattr(import_module(f"duckplets.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
