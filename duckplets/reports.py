"""Results that the verbs return."""

from __future__ import annotations

from duckplets.adapters.evaluation import Comparison
from duckplets.advise.advice import Advice, ArmFound
from duckplets.corpus.compact import CompactReport
from duckplets.corpus.maintenance import PrepareReport
from duckplets.export import ExportReport
from duckplets.export.hub import PushReport
from duckplets.ingest.collection import CollectionReport
from duckplets.ingest.preview import Preview
from duckplets.ingest.records import IngestReport
from duckplets.ingest.splits import SplitReport
from duckplets.mining.external import GivenReport
from duckplets.mining.report import MiningReport, PairReport
from duckplets.quality.decontaminate import DecontaminationReport
from duckplets.quality.explain import Shifts
from duckplets.quality.judge import JudgeReport
from duckplets.quality.near_dedup import NearReport
from duckplets.report import ReportPage
from duckplets.runs.forecast import Forecast
from duckplets.search.index import IndexReport
from duckplets.tokens.shards import ShardReport
from duckplets.tokens.train import TokenizerReport
from duckplets.tokens.verify import VerifyReport
from duckplets.vectors.add import AddedVectors
from duckplets.vectors.embed import EmbedReport

__all__ = [
    "AddedVectors",
    "Advice",
    "ArmFound",
    "CollectionReport",
    "CompactReport",
    "Comparison",
    "DecontaminationReport",
    "EmbedReport",
    "ExportReport",
    "Forecast",
    "GivenReport",
    "IndexReport",
    "IngestReport",
    "JudgeReport",
    "MiningReport",
    "NearReport",
    "PairReport",
    "PrepareReport",
    "Preview",
    "PushReport",
    "ReportPage",
    "ShardReport",
    "Shifts",
    "SplitReport",
    "TokenizerReport",
    "VerifyReport",
]
