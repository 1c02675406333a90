"""Mutants of Python modules, made by mutmut in a copy of the checkout, and tried there by `tests.mutants.trials`.

The type checker judges those that no test notices: what it refuses cannot be merged either.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room

_CONFIGURATION = """
[mutmut]
source_paths=
    {package}
only_mutate=
    {folders}
also_copy=
    {others}
pytest_add_cli_args_test_selection=
    tests
track_dependencies=false
use_git_change_detection=false
"""
#: A line of `tests.mutants.trials`.
_END = re.compile(r"^(alive|caught) (\S+)$", re.MULTILINE)
_COPIED = ("penstock", "scheduler", "workers", "scalers", "deploy", "tests", "docs", "examples", "pyproject.toml")


def survivors(
    rooms: Sequence[Room], tree: Path, number: int, seed: int, mutmut: Path
) -> Iterator[tuple[Room, Sequence[Mutant], int]]:
    """Tries mutants of one package's rooms in a copy of the checkout; they are made in one run, which takes minutes.

    Yields for each room the mutants that neither a test nor the type checker noticed, and how many were tried. number:
    of each room. mutmut: its program. Raises RuntimeError if mutmut makes none, or some were not tried.
    """
    (tree / "setup.cfg").write_text(_configuration(rooms))
    # Without a mutant of this name it stops when all are made.
    made = subprocess.run([mutmut, "run", "none of them"], cwd=tree, capture_output=True, text=True)
    for room in rooms:
        known = sorted(_made(tree, room))
        if not known:
            raise RuntimeError(f"mutmut made no mutants of {room.folder}:\n{made.stdout}\n{made.stderr}")
        chosen = room.sample(known, number, seed)
        (tree / "names").write_text("\n".join(chosen))
        command = [mutmut.with_name("python"), "-m", "tests.mutants.trials", tree / "names", *room.tests]
        run = subprocess.run(command, cwd=tree / "mutants", capture_output=True, text=True)
        ends = {name: end for end, name in _END.findall(run.stderr)}
        if unknown := [name for name in chosen if name not in ends]:
            said = run.stdout[-2000:] + run.stderr[-2000:]
            raise RuntimeError(f"{len(unknown)} mutants of {room.folder} were not tried:\n{said}")
        alive = {name: _described(name, tree, mutmut) for name in chosen if ends[name] == "alive"}
        left = [found for name, found in alive.items() if not _refused(name, found, room.package, tree, mutmut)]
        yield room, left, len(chosen)


def _refused(name: str, mutant: Mutant, package: str, tree: Path, mutmut: Path) -> bool:
    """Returns whether the type checker refuses a mutant. It stands in the copy's source for as long as that takes."""
    source = tree / mutant.file
    before = source.read_bytes()
    subprocess.run([mutmut, "apply", name], cwd=tree, capture_output=True, check=True)
    try:
        command = [sys.executable, "-m", "mypy", "--cache-dir", tree.parent / "types", "--package", package]
        checked = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    finally:
        source.write_bytes(before)
    if checked.returncode not in (0, 1):
        raise RuntimeError(f"the type checker failed:\n{checked.stdout}\n{checked.stderr}")
    return checked.returncode == 1


def _configuration(rooms: Sequence[Room]) -> str:
    package = rooms[0].package
    return _CONFIGURATION.format(
        package=package,
        folders=_lines(f"{room.folder}/*" for room in rooms),
        others=_lines(name for name in _COPIED if name != package),
    )


def _lines(names: Iterator[str]) -> str:
    return "\n    ".join(names)


def _made(tree: Path, room: Room) -> Iterator[str]:
    """Yields the names of the mutants that were made of a room."""
    for file in (tree / "mutants" / room.folder).rglob("*.meta"):
        yield from json.loads(file.read_text())["exit_code_by_key"]


def _described(name: str, tree: Path, mutmut: Path) -> Mutant:
    shown = subprocess.run([mutmut, "show", name], cwd=tree, capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if line.startswith(("-", "+"))]
    file = next(line.removeprefix("--- ") for line in lines if line.startswith("--- "))
    before, after = (
        " ".join(line[1:] for line in lines if line.startswith(sign) and not line.startswith(sign * 3)) for sign in "-+"
    )
    return Mutant(file, -1, before, after)
