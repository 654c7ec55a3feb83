"""Certificates of runs, for others to check, and searches for drawn texts."""

from duckplets.proof.certificate import Certificate
from duckplets.proof.drawn import drawn
from duckplets.proof.verify import Verification, verify

__all__ = ["Certificate", "Verification", "drawn", "verify"]
