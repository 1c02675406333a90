"""The files of a container's log, whose kubelet begins a new one when the last one is large.

The file of a log is its newest part. Earlier parts are beside it, named after the bytes of standard output and standard
error that the log had at their end: ``0.log.<bytes>-<bytes>``.
"""

import re
from pathlib import Path

_ENDING = re.compile(r"([0-9]+)-([0-9]+)")


def earlier(path: Path) -> list[Path]:
    """Returns the parts before the newest one, the oldest first. path: of the log."""
    found = {place: part for part in path.parent.glob(f"{path.name}.*") if (place := _end(path, part)) is not None}
    return [found[place] for place in sorted(found, key=sum)]


def end(path: Path) -> tuple[int, int]:
    """Returns the bytes of standard output and standard error in all parts but the newest, dropped ones included."""
    parts = earlier(path)
    return (_end(path, parts[-1]) if parts else None) or (0, 0)


def named(path: Path, out: int, err: int) -> Path:
    """Returns the place of a part that ends after so many bytes of standard output and standard error."""
    return path.with_name(f"{path.name}.{out}-{err}")


def _end(path: Path, part: Path) -> tuple[int, int] | None:
    match = _ENDING.fullmatch(part.name.removeprefix(f"{path.name}."))
    return (int(match[1]), int(match[2])) if match else None
