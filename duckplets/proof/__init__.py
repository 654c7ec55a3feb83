"""What a run drew, so that others can check it: certificates, and their verification."""

from duckplets.proof.certificate import Certificate
from duckplets.proof.verify import Verification, verify

__all__ = ["Certificate", "Verification", "verify"]
