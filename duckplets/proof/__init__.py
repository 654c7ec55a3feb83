"""What a run drew, so that others can check it: certificates, and where a text was."""

from duckplets.proof.certificate import Certificate
from duckplets.proof.drawn import drawn
from duckplets.proof.verify import Verification, verify

__all__ = ["Certificate", "Verification", "drawn", "verify"]
