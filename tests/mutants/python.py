"""Mutants of Python modules, made and tried by mutmut in a copy of the checkout."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room

# A mutant that never ends costs its time-out: the time of its tests, some times over, as the machine has other work.
_CONFIGURATION = """
[mutmut]
source_paths=
    {package}
only_mutate=
    {folders}
also_copy=
    {others}
pytest_add_cli_args_test_selection=
    {tests}
pytest_add_cli_args=
    -p
    no:cacheprovider
    -p
    no:xdist
    -p
    tests.mutants.quick
    --timeout=300
timeout_constant=5
timeout_multiplier=4
track_dependencies=false
use_git_change_detection=false
"""
_COPIED = ("penstock", "scheduler", "workers", "scalers", "deploy", "tests", "docs", "examples", "pyproject.toml")
#: mutmut's exit code of a mutant with which all tests passed, and of one that no test reaches.
_ALIVE = (0, 33)


def survivors(
    rooms: Sequence[Room], tree: Path, number: int, seed: int, mutmut: Path
) -> Iterator[tuple[Room, Sequence[Mutant], int]]:
    """Tries mutants of one package's rooms in a copy of the checkout, all in one run: its preparation takes a minute.

    Yields for each room the mutants that no test noticed, and how many were tried. number: of each room. mutmut: its
    program. Raises RuntimeError if mutmut cannot make or run any.
    """
    (tree / "setup.cfg").write_text(_configuration(rooms))
    # Without a mutant of this name it stops when all are made.
    made = subprocess.run([mutmut, "run", "none of them"], cwd=tree, capture_output=True, text=True)
    tried = {}
    for room in rooms:
        known = sorted(_results(tree, room))
        if not known:
            raise RuntimeError(f"mutmut made no mutants of {room.folder}:\n{made.stdout}\n{made.stderr}")
        tried[room] = room.sample(known, number, seed)
    names = [name for chosen in tried.values() for name in chosen]
    run = subprocess.run([mutmut, "run", *names], cwd=tree, capture_output=True, text=True)
    for room, chosen in tried.items():
        results = _results(tree, room)
        if unknown := [name for name in chosen if results[name] is None]:
            raise RuntimeError(f"mutmut did not try {len(unknown)} mutants of {room.folder}:\n{run.stdout[-2000:]}")
        yield room, [_described(name, tree, mutmut) for name in chosen if results[name] in _ALIVE], len(chosen)


def _configuration(rooms: Sequence[Room]) -> str:
    package = rooms[0].package
    return _CONFIGURATION.format(
        package=package,
        folders=_lines(f"{room.folder}/*" for room in rooms),
        others=_lines(name for name in _COPIED if name != package),
        # A folder below another one is named once: mutmut runs what it is given.
        tests=_lines(_outermost(name for room in rooms for name in room.tests)),
    )


def _lines(names: Iterator[str]) -> str:
    return "\n    ".join(names)


def _outermost(names: Iterator[str]) -> Iterator[str]:
    known = sorted(set(names))
    return (name for name in known if not any(name.startswith(f"{other}/") for other in known))


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
