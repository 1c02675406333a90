"""Rounding of measured values to numbers of replicas and Jobs, within 64 bits."""

from math import ceil

#: The largest count: KEDA and Kubernetes count with 64 bits.
LARGEST = 2**63 - 1


def up(number: float) -> int:
    """Returns the number rounded up and clamped to 64 bits: a sum or quotient of finite numbers may be infinite."""
    return ceil(max(-LARGEST, min(number, LARGEST)))
