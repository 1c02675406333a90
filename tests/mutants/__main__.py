"""Tries mutants: ``python -m tests.mutants [ROOM ...] [--number N] [--seed S]``; ROOM is the start of a folder's name.

Each room is given N random mutants. Fails if fewer than 95 % of those that count are caught. Mutants that only change
the wording of a message do not count; those of accepted.txt do not either, each for the reason that stands there.
"""

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutants import lua, python
from tests.mutants.mutant import accepted
from tests.mutants.rooms import ROOMS, Room
from tests.support.paths import ROOT

WANTED = 0.95


def main() -> None:
    """Prints a line per room and one per survivor."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("rooms", nargs="*", help="the starts of their folders' names; default all")
    parser.add_argument("--number", type=int, default=100, help="mutants of each room (default 100)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="choice of the mutants")
    parser.add_argument("--mutmut", type=Path, default=ROOT / "build" / "mutmut" / "bin" / "mutmut")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rooms = [room for room in ROOMS if room.folder.startswith(tuple(arguments.rooms or [""]))]
    caught = counted = 0
    for room in rooms:
        few, many = _try(room, arguments.number, random.Random(arguments.seed), arguments.mutmut)
        caught, counted = caught + few, counted + many
    print(f"{caught} of {counted} caught ({caught / counted:.1%})")
    sys.exit(caught < WANTED * counted)


def _try(room: Room, number: int, chance: random.Random, mutmut: Path) -> tuple[int, int]:
    """Returns how many mutants of the room were caught, of how many that count."""
    tree = _copy()
    if room.is_lua:
        survivors, tried = lua.survivors(room, tree, number, chance)
    else:
        survivors, tried = python.survivors(room, tree, number, chance, mutmut)
    known = accepted()
    left_out = [each for each in survivors if each.is_wording or each.key in known]
    alive = [each for each in survivors if each not in left_out]
    counted = tried - len(left_out)
    print(f"{room.folder}: {counted - len(alive)} of {counted} caught; {len(left_out)} do not count", flush=True)
    for each in alive:
        print(f"    {each.key}", flush=True)
    return counted - len(alive), counted


def _copy() -> Path:
    """Copies the checkout's files, as they are now. Returns the folder."""
    tree = ROOT / "build" / "mutants"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


if __name__ == "__main__":
    main()
