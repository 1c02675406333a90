"""Instants as Kubernetes writes them, and as seconds since the epoch."""

from datetime import UTC, datetime


def text(instant: float) -> str:
    """RFC 3339, UTC, whole seconds: the form of every time in a status."""
    return datetime.fromtimestamp(int(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 text. Raises ValueError for anything else."""
    return datetime.fromisoformat(moment).timestamp()
