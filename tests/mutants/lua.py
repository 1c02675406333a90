"""Mutants of Lua scripts: one token of one line exchanged, or one call of the broker left out."""

import gc
import multiprocessing
import os
import re
import resource
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from scheduler import scripts
from scheduler.scripts import Script
from tests.mutants.mutant import Mutant
from tests.mutants.rooms import Room
from tests.support.paths import ROOT

#: CPU seconds that the tests of a mutant may take; one that never ends is caught.
PATIENCE = 40

_SWAPS = {
    **{"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "~=", "~=": "=="},
    **{"and": "or", "or": "and", "not": "", "true": "false", "false": "true"},
    **{"+": "-", "-": "+", "*": "+", "math.max": "math.min", "math.min": "math.max"},
}
_TOKEN = re.compile(r"<=|>=|==|~=|(?<=\s)[<>+*-](?=\s)|\b(?:and|or|not|true|false|math\.max|math\.min)\b|\b\d+\b")
_CALL = re.compile(r"\s*(?:redis\.call|write_many)\(.*\)$")
#: Comments and strings hold no code.
_DEAD = re.compile(r"--.*$|'[^']*'|\"[^\"]*\"")


def mutants(script: Path, name: str) -> Iterator[Mutant]:
    """Yields every mutant of a script. name: its path in the checkout."""
    for number, line in enumerate(script.read_text().splitlines()):
        if _CALL.match(line):
            yield Mutant(name, number, line, "")
        dead = [match.span() for match in _DEAD.finditer(line)]
        for match in _TOKEN.finditer(line):
            if any(start <= match.start() < end for start, end in dead):
                continue
            token = match[0]
            other = _SWAPS[token] if token in _SWAPS else str(int(token) + 1)
            yield Mutant(name, number, line, line[: match.start()] + other + line[match.end() :])


def survivors(room: Room, number: int, seed: int) -> tuple[Sequence[Mutant], int]:
    """Tries mutants of a room, each in a process of its own that begins where the tests are collected.

    Returns those that no test noticed, and how many were tried. Raises RuntimeError if the tests fail without any
    mutant.
    """
    files = sorted((ROOT / room.folder).glob("*.lua"))
    known = [each for file in files for each in mutants(file, str(file.relative_to(ROOT)))]
    tried = room.sample(known, number, seed)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as alone:
        alive = alone.submit(_alive, room.tests, tried).result()
    if None not in alive:
        raise RuntimeError(f"the tests of {room.folder} fail without any mutant")
    return [mutant for mutant in tried if mutant in alive], len(tried)


def _alive(tests: Sequence[str], tried: Sequence[Mutant]) -> set[Mutant | None]:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    trials = _Trials([None, *tried])
    code = pytest.main(["-x", "-q", "-n", "0", "-p", "tests.mutants.quick", *tests], plugins=[trials])
    if trials.is_child:
        os._exit(code)
    return trials.alive


class _Trials:
    """A pytest plugin that runs the collected tests once for each mutant; None stands for the scripts as they are."""

    def __init__(self, tried: Sequence[Mutant | None]) -> None:
        self._tried = tried
        self.is_child = False
        self.alive: set[Mutant | None] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool | None:
        """Forks. The processes with a mutant go on with pytest's own loop."""
        gc.unfreeze()
        loaded = [each for each in gc.get_objects() if type(each) is Script]
        gc.freeze()
        running: dict[int, Mutant | None] = {}
        for mutant in self._tried:
            if len(running) == (os.cpu_count() or 1):
                self._await(running)
            if not (process := os.fork()):
                self.is_child = True
                _begin(mutant, loaded)
                return None
            running[process] = mutant
        while running:
            self._await(running)
        return True

    def _await(self, running: dict[int, Mutant | None]) -> None:
        process, status = os.wait()
        mutant = running.pop(process)
        if status == 0:
            self.alive.add(mutant)


def _begin(mutant: Mutant | None, loaded: Sequence[Script]) -> None:
    """Puts a mutant where its script was loaded before."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
    if mutant is None:
        return
    source = (ROOT / mutant.file).read_text()
    read = scripts._read
    before = {text: place for place in _places() if (text := scripts.load(*place))}
    scripts._read = lambda package, name: (
        mutant.applied(source) if read(package, name) == source else read(package, name)
    )
    scripts.load.cache_clear()
    after = {text: scripts.load(*place) for text, place in before.items()}
    for script in loaded:
        if script.text in after:
            script.__init__(after[script.text], ours=script._ours)  # type: ignore[misc]
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if type(value) is str and value in after:
                setattr(module, name, after[value])


def _places() -> Iterator[tuple[str, str]]:
    for package in ("scheduler", "workers", "scalers"):
        for file in (ROOT / package / "lua").glob("*.lua"):
            yield package, file.stem
