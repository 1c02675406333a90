"""What is wrong with an object that its schema accepts."""

from collections.abc import Iterable
from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that is wrong. field: its path (``spec.tasks[1].replicas``). message: what to change, for people."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def joined(found: Iterable[Finding]) -> str:
    """All findings as one text."""
    return "; ".join(map(str, found))
