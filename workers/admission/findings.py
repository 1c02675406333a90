"""Findings: the errors of an object that its schema accepts."""

from collections.abc import Iterable
from typing import NamedTuple


class Finding(NamedTuple):
    """One error. field: its path (``spec.tasks[1].replicas``). message: what to change."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def joined(found: Iterable[Finding]) -> str:
    """Returns all findings as one text."""
    return "; ".join(map(str, found))
