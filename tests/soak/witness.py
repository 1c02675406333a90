"""What processes did under their leases: a note in a file of each process, from which the faults of leases follow.

The processes are forks of this one, so that `install` reaches them. Moments are `time.monotonic()`, which all processes
of a machine share.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scheduler.queue import Lease, Outcome
from tests.chaos.hands import Effect, Piece, Start, overlaps
from workers.runtime.leases import Finish, LeaseKeeper


def install(folder: Path) -> None:
    """Notes what this process and its forks claim, find a good lease of, and settle."""
    folder.mkdir(parents=True, exist_ok=True)
    take, check, finish = LeaseKeeper.take, LeaseKeeper.check, LeaseKeeper._finish

    def note(keeper: LeaseKeeper, what: str, leases: Sequence[Lease], moment: float) -> None:
        lines = (f"{keeper.lane.name}:{lease.key} {lease.token} {what} {moment:.6f}\n" for lease in leases)
        # One write: a process that is killed leaves whole lines.
        with (folder / str(os.getpid())).open("ab", buffering=0) as file:
            file.write("".join(lines).encode())

    def noted_take(self: LeaseKeeper, leases: Sequence[Lease]) -> None:
        note(self, "start", leases, time.monotonic())
        take(self, leases)

    def noted_check(self: LeaseKeeper, lease: Lease) -> None:
        looked = time.monotonic()
        check(self, lease)
        note(self, "effect", [lease], looked)

    async def noted_finish(
        self: LeaseKeeper, outcomes: Sequence[tuple[Lease, Outcome]], together: Finish | None = None
    ) -> Sequence[bool]:
        before = time.monotonic()
        accepted = await finish(self, outcomes, together)
        for what, so in (("settled", True), ("refused", False)):
            found = [lease for (lease, _), ok in zip(outcomes, accepted, strict=True) if ok is so]
            # Refused in time: somebody else settled it.
            note(self, what, [lease for lease in found if so or time.monotonic() < lease.deadline], before)
        return accepted

    patched: dict[str, Callable[..., Any]] = {"take": noted_take, "check": noted_check, "_finish": noted_finish}
    for name, function in patched.items():
        setattr(LeaseKeeper, name, function)


def holder(folder: Path, key: str) -> int | None:
    """Returns the process that claimed the key last, None before the first claim. key: ``<lane>:<object's key>``."""
    found = [
        (float(moment), int(file.name))
        for file in folder.iterdir()
        for named, _, what, moment in _lines(file)
        if named == key and what == "start"
    ]
    return max(found)[1] if found else None


def faults(folder: Path) -> list[str]:
    """Returns where a process wrote, or settled a key, that was another's by then; empty if none did."""
    entries: list[Start | Effect] = []
    refused: list[str] = []
    for file in folder.iterdir():
        for key, token, what, moment in _lines(file):
            if what == "refused":
                refused.append(f"the outcome of {key} was refused under a good lease")
                continue
            piece, at = Piece(key, int(token)), float(moment)
            entries.append(Start(piece, at, int(file.name)) if what == "start" else Effect(piece, at))
    # A lease that was settled in time may be claimed at once: what was promised for longer says nothing.
    found = overlaps(entries, margin=0.0)
    lost = [f"{len(found)} writes and outcomes under leases that were lost, for example {found[0]}"] if found else []
    return [*lost, *refused]


def _lines(file: Path) -> Iterator[list[str]]:
    return (line.split() for line in file.read_text().splitlines())
