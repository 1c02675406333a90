"""Completion indexes: sets and their text in a Job's status; the index and failure counts on a pod."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

from workers.api.kinds import Object

#: Annotation, and label, of every pod of an Indexed Job: its completion index.
INDEX = "batch.kubernetes.io/job-completion-index"
#: Annotation: failures of the index before this pod that count towards backoffLimitPerIndex.
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
#: Annotation: failures of the index before this pod that the pod failure policy ignores; left out when there are none.
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
#: The largest failure count an annotation may hold.
MOST_FAILURES = 2**31 - 1

_NUMBER = re.compile(r"\+?[0-9]{1,19}", re.ASCII)
_LARGEST = 2**63 - 1

#: The first and the last index of an unbroken run.
Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of completion indexes. runs: ascending, none touching the next, so that equal sets compare equal.

    Costs grow with the number of gaps, not of indexes.
    """

    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Self:
        """Builds the set from indexes in any order, repeated or not."""
        return cls(_joined((index, index) for index in indexes))

    @classmethod
    def parse(cls, text: str | None, completions: int | None = None) -> Self:
        """Reads a text such as ``1,3-5,7``; never raises.

        A malformed part is ignored. With completions, reading stops at the first part that begins beyond
        the last index, and a part that ends there is clipped: a Job that shrank drops the indexes beyond its range.
        """
        runs = []
        for part in (text or "").split(","):
            first, hyphen, last = part.partition("-")
            start, end = _number(first), _number(last if hyphen else first)
            if start is not None and completions is not None and start >= completions:
                break
            if start is not None and end is not None and start <= end:
                runs.append((start, end if completions is None else min(end, completions - 1)))
        return cls(_joined(runs))

    @property
    def text(self) -> str:
        """The set as text in a status: runs of three and more as ``a-b``; the empty text for the empty set."""
        return ",".join(part for run in self.runs for part in _parts(run))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self.runs, index, key=lambda run: run[0])
        return place > 0 and index <= self.runs[place - 1][1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def __or__(self, other: "Indexes") -> "Indexes":
        return Indexes(_joined((*self.runs, *other.runs)))

    def __and__(self, other: "Indexes") -> "Indexes":
        return Indexes(tuple(_common(self.runs, other.runs)))


def pending(completions: int, taken: Indexes, number: int) -> list[int]:
    """Returns the lowest free indexes below completions, at most this number."""
    return list(islice(_free(completions, taken), max(number, 0)))


def index_of(pod: Object) -> int | None:
    """Returns the completion index in the pod's annotation; None if missing, negative or malformed."""
    return _number(_annotation(pod, INDEX))


def count_of(pod: Object) -> int:
    """Returns the counted failures of the pod's index before this pod."""
    return _count(pod, FAILURE_COUNT)


def ignored_count_of(pod: Object) -> int:
    """Returns the ignored failures of the pod's index before this pod."""
    return _count(pod, IGNORED_FAILURE_COUNT)


def _count(pod: Object, name: str) -> int:
    """Reads a count; a malformed annotation, which any client may write, counts as 0."""
    count = _number(_annotation(pod, name))
    return count if count is not None and count <= MOST_FAILURES else 0


def _annotation(pod: Object, name: str) -> str | None:
    value = (pod["metadata"].get("annotations") or {}).get(name)
    return value if isinstance(value, str) else None


def _number(text: str | None) -> int | None:
    """Reads a natural number of 64 bits, or None. `int` alone accepts blanks, underscores and other digits."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= _LARGEST else None


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Merges runs, in any order and overlapping, into the fewest that cover the same indexes."""
    joined: list[Run] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _common(left: tuple[Run, ...], right: tuple[Run, ...]) -> Iterator[Run]:
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            yield first, last
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1


def _free(completions: int, taken: Indexes) -> Iterator[int]:
    start = 0
    for first, last in taken.runs:
        yield from range(start, min(first, completions))
        start = last + 1
    yield from range(start, completions)


def _parts(run: Run) -> tuple[str, ...]:
    first, last = run
    if last - first > 1:
        return (f"{first}-{last}",)
    return tuple(str(index) for index in range(first, last + 1))
