"""Numbers of replicas and Jobs from what was measured, however much that is."""

from math import ceil

#: The largest number there is: what KEDA and Kubernetes count with has 64 bits.
LARGEST = 2**63 - 1


def up(number: float) -> int:
    """Rounded up, within 64 bits: a sum of finite numbers, or a quotient, may be infinite."""
    return ceil(max(-LARGEST, min(number, LARGEST)))
