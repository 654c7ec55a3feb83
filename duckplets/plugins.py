"""Register your own chunkers, preprocessors, converters, gates, detectors and words."""

from __future__ import annotations

from duckplets.quality.plugins import register_detector, register_gate
from duckplets.search.segmenters import Segmenter, register_words
from duckplets.sources.converters.registry import converter_names, register_converter
from duckplets.text.chunkers import Chunker, register_chunker
from duckplets.text.denoiser import Denoiser
from duckplets.text.normaliser import Normaliser
from duckplets.text.preprocessors import Preprocessor, register_preprocessor

__all__ = [
    "Chunker",
    "Denoiser",
    "Normaliser",
    "Preprocessor",
    "Segmenter",
    "converter_names",
    "register_chunker",
    "register_converter",
    "register_detector",
    "register_gate",
    "register_preprocessor",
    "register_words",
]
