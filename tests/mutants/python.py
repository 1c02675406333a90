"""Mutants of Python modules, made and tried by mutmut in a copy of the checkout."""

import json
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room

_CONFIGURATION = """
[mutmut]
source_paths=
    {package}
only_mutate=
    {folder}/*
also_copy=
    {others}
pytest_add_cli_args_test_selection=
    {tests}
pytest_add_cli_args=
    -p
    no:cacheprovider
    -p
    no:xdist
"""
_COPIED = ("penstock", "scheduler", "workers", "scalers", "deploy", "tests", "docs", "examples", "pyproject.toml")
#: mutmut's exit code of a mutant with which all tests passed, and of one that no test reaches.
_ALIVE = (0, 33)


def survivors(room: Room, tree: Path, number: int, chance: random.Random, mutmut: Path) -> tuple[Sequence[Mutant], int]:
    """Tries mutants of a room in a copy of the checkout. Returns those that no test noticed, and how many were tried.

    mutmut: its program. Raises RuntimeError if mutmut cannot make or run any.
    """
    package = room.folder.split("/")[0]
    others = "\n    ".join(name for name in _COPIED if name != package)
    tests = "\n    ".join(room.tests)
    configuration = _CONFIGURATION.format(package=package, folder=room.folder, others=others, tests=tests)
    (tree / "setup.cfg").write_text(configuration)
    # Without a mutant of this name it stops when all are made.
    made = subprocess.run([mutmut, "run", "none of them"], cwd=tree, capture_output=True, text=True)
    known = sorted(_results(tree, room))
    if not known:
        raise RuntimeError(f"mutmut made no mutants of {room.folder}:\n{made.stdout}\n{made.stderr}")
    tried = chance.sample(known, min(number, len(known)))
    run = subprocess.run([mutmut, "run", *tried], cwd=tree, capture_output=True, text=True)
    results = _results(tree, room)
    if unknown := [name for name in tried if results[name] is None]:
        raise RuntimeError(f"mutmut did not try {len(unknown)} mutants of {room.folder}:\n{run.stdout[-2000:]}")
    return [_described(name, tree, mutmut) for name in tried if results[name] in _ALIVE], len(tried)


def _results(tree: Path, room: Room) -> Mapping[str, int | None]:
    def read() -> Iterator[tuple[str, int | None]]:
        for file in (tree / "mutants" / room.folder).rglob("*.meta"):
            yield from json.loads(file.read_text())["exit_code_by_key"].items()

    return dict(read())


def _described(name: str, tree: Path, mutmut: Path) -> Mutant:
    shown = subprocess.run([mutmut, "show", name], cwd=tree, capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if line.startswith(("-", "+"))]
    file = next(line.removeprefix("--- ") for line in lines if line.startswith("--- "))
    before, after = (
        " ".join(line[1:] for line in lines if line.startswith(sign) and not line.startswith(sign * 3)) for sign in "-+"
    )
    return Mutant(file, -1, before, after)
