"""Tries mutants: ``python -m tests.mutants [ROOM ...] [--number N] [--seed S]``; ROOM is the start of a folder's name.

Each room is given N random mutants. Fails if fewer than 95 % of those that count are caught. Mutants that only change
the wording of a message do not count; those of accepted.txt do not either, each for the reason that stands there.
"""

import argparse
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tests.mutants import lua, python
from tests.mutants.mutant import Mutant, accepted
from tests.mutants.rooms import Room, matching
from tests.support.paths import ROOT

WANTED = 0.95


def main() -> None:
    """Prints a line per room and one per survivor."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("rooms", nargs="*", help="their folders, or the starts of several; default all")
    parser.add_argument("--number", type=int, default=100, help="mutants of each room (default 100)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="choice of the mutants")
    parser.add_argument("--mutmut", type=Path, default=ROOT / "build" / "mutmut" / "bin" / "mutmut")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rooms = matching(arguments.rooms)
    caught = counted = 0
    for room, survivors, tried in _try(rooms, arguments.number, arguments.seed, arguments.mutmut):
        few, many = _report(room, survivors, tried)
        caught, counted = caught + few, counted + many
    print(f"{caught} of {counted} caught ({caught / counted:.1%})")
    sys.exit(caught < WANTED * counted)


def _try(rooms: Sequence[Room], number: int, seed: int, mutmut: Path) -> Iterator[tuple[Room, Sequence[Mutant], int]]:
    """Yields for each room the mutants that no test noticed, and how many were tried."""
    for package, of_package in groupby((room for room in rooms if not room.is_lua), key=lambda room: room.package):
        yield from python.survivors(list(of_package), _copy(package), number, seed, mutmut)
    for room in rooms:
        if room.is_lua:
            yield room, *lua.survivors(room, number, seed)


def _report(room: Room, survivors: Sequence[Mutant], tried: int) -> tuple[int, int]:
    """Prints a line of the room and one of each survivor. Returns how many were caught, of how many that count."""
    known = accepted()
    alive = [each for each in survivors if not each.is_wording and each.key not in known]
    left_out = len(survivors) - len(alive)
    counted = tried - left_out
    print(f"{room.folder}: {counted - len(alive)} of {counted} caught; {left_out} do not count", flush=True)
    for each in alive:
        print(f"    {each.key}", flush=True)
    return counted - len(alive), counted


def _copy(name: str) -> Path:
    """Copies the checkout's files, as they are now. Returns the folder."""
    tree = ROOT / "build" / "mutants" / name
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for each in filter(None, listed.split("\0")):
        if (ROOT / each).is_file():
            (tree / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / each, tree / each)
    return tree


if __name__ == "__main__":
    main()
