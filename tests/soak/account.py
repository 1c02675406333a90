"""The account of a soak: what was asked for against what the pods noted. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

#: Seconds after the end of a pod's program within which the death of its kubelet makes that end unknown.
UNKNOWN = 10.0


@dataclass(frozen=True, slots=True)
class Note:
    """One note of a pod. at: the note's time, by the clock of the server that keeps the notes (epoch seconds)."""

    by: str
    job: str
    pod: str
    what: str
    work: str
    at: float

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> "Note":
        return cls(**{name: fields[name] for name in cls.__slots__})


@dataclass
class Promise:
    """The work of one object, and what holds of it.

    works: those that must be done, in the order in which they were asked for. more: those that may be done. open: any
    may. once: none is done twice. jobs: a work's attempts are pods of one Job. key_of: the ordering key of each work.
    """

    works: list[str] = field(default_factory=list)
    more: frozenset[str] = frozenset()
    open: bool = False
    once: bool = True
    jobs: bool = True
    key_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """How one work was done: its notes in their order."""

    notes: tuple[Note, ...]

    @property
    def ends(self) -> list[Note]:
        return [note for note in self.notes if note.what == "end"]

    @property
    def began(self) -> float:
        return self.notes[0].at


@dataclass
class Account:
    """promises: by object. notes: of all pods, in their order. deaths: when kubelets died (epoch seconds)."""

    promises: Mapping[str, Promise]
    notes: Sequence[Note]
    deaths: Sequence[float] = ()

    def __post_init__(self) -> None:
        found: dict[str, dict[str, list[Note]]] = defaultdict(lambda: defaultdict(list))
        for note in self.notes:
            if note.what not in ("idle", "asked"):
                found[note.by][note.work].append(note)
        self._done = {by: {work: Done(tuple(notes)) for work, notes in works.items()} for by, works in found.items()}

    def done(self, by: str) -> Mapping[str, Done]:
        """Returns the works of an object that were begun."""
        return self._done.get(by, {})

    def undone(self) -> dict[str, list[str]]:
        """Returns the promised works that no pod has ended, by object."""
        found = {
            by: [work for work in promise.works if work not in self.done(by) or not self.done(by)[work].ends]
            for by, promise in self.promises.items()
        }
        return {by: works for by, works in found.items() if works}

    def repeated(self) -> dict[str, int]:
        """Returns the number of ends beyond the first of each work, by object."""
        found = {by: sum(max(0, len(each.ends) - 1) for each in self.done(by).values()) for by in self.promises}
        return {by: number for by, number in found.items() if number}

    def spoilt(self) -> bool:
        """Returns True if there is a fault that waiting does not mend."""
        undone = self.undone()
        return any(fault for by in self.promises.keys() - undone.keys() for fault in self._of(by, self.promises[by]))

    def faults(self) -> list[str]:
        """Returns the faults as text; empty for a correct run."""
        return [fault for by, promise in self.promises.items() for fault in self._of(by, promise)] + [
            f"{by}: pods of an object that is none of the soak's" for by in self._done.keys() - self.promises.keys()
        ]

    def _of(self, by: str, promise: Promise) -> Iterator[str]:
        done, promised = self.done(by), set(promise.works)
        yield from _told(by, "lost", [work for work in promise.works if not (work in done and done[work].ends)])
        if not promise.open:
            yield from _told(by, "done, but never asked for", sorted(done.keys() - promised - promise.more))
        if promise.once:
            yield from _told(by, "done twice", [work for work, each in done.items() if self._twice(each, promise)])
        yield from self._order(by, promise)
        yield from self._asked(by)

    def _twice(self, done: Done, promise: Promise) -> bool:
        if promise.jobs and len({note.job for note in done.ends}) > 1:
            return True
        return any(not self._unknown(done.began, former.at) for former, _ in pairwise(done.ends))

    def _unknown(self, began: float, ended: float) -> bool:
        """Returns True if a kubelet died that did not tell the end of a pod: its work is done once more."""
        return any(began <= death <= ended + UNKNOWN for death in self.deaths)

    def _order(self, by: str, promise: Promise) -> Iterator[str]:
        last: dict[str, str] = {}
        done = self.done(by)
        for work in promise.works:
            key = promise.key_of.get(work)
            if key is None or work not in done:
                continue
            if (before := last.get(key)) and done[before].ends and done[work].began < done[before].ends[0].at:
                yield f"{by}: of {key}, {work} began before {before} was done"
            last[key] = work

    def _asked(self, by: str) -> Iterator[str]:
        """A Job's first note names the reading that asked for it, and how many Jobs that reading justifies."""
        jobs: dict[str, set[str]] = defaultdict(set)
        for note in self.notes:
            if note.by == by and note.what == "asked":
                jobs[note.work].add(note.job)
        for asked, made in jobs.items():
            reading, length = asked.split()
            if len(made) > int(length):
                yield f"{by}: {len(made)} Jobs of reading {reading}, which justifies {length}"


def _told(by: str, what: str, works: Iterable[str]) -> Iterator[str]:
    if found := list(works):
        yield f"{by}: {len(found)} {what}, for example {', '.join(map(str, found[:3]))}"
