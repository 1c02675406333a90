"""Mutants of Lua scripts: one token of one line exchanged, or one call of the broker left out."""

import gc
import json
import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import redis.asyncio as redis
from redis.asyncio.client import Pipeline

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
    if alive is None:
        raise RuntimeError(f"the tests of {room.folder} fail without any mutant")
    return [mutant for mutant in tried if mutant in alive], len(tried)


def _alive(tests: Sequence[str], tried: Sequence[Mutant]) -> set[Mutant] | None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    with TemporaryDirectory() as folder:
        trials = _Trials(tried, Path(folder, "reached.json"))
        options = ["-x", "-q", "-n", "0", "-o", f"cache_dir={folder}", "-p", "tests.mutants.quick"]
        code = pytest.main([*options, *tests], plugins=[trials])
        if trials.is_child:
            # A child must not remove the folder, which is its parent's.
            os._exit(code)
        return trials.alive


class _Reached:
    """A pytest plugin that notes the digests of the scripts that each test runs, and its seconds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._of: dict[str, tuple[float, list[str]]] = {}
        self._digests: set[str] = set()

    def begin(self) -> None:
        """Notes every script that a client sends from now on."""
        for client in (redis.Redis, Pipeline):
            client.execute_command = self._noting(client.execute_command)  # type: ignore[method-assign]
        run = scripts.Script.__call__

        async def noted(script: Script, *args: Any) -> Any:
            self._digests.add(script.digest)
            return await run(script, *args)

        scripts.Script.__call__ = noted  # type: ignore[method-assign]

    def _noting(self, execute: Any) -> Any:
        def noted(client: Any, *args: Any, **options: Any) -> Any:
            if str(args[0]).upper() in ("EVAL", "EVALSHA"):
                text = args[1]
                self._digests.add(_digest(text) if str(args[0]).upper() == "EVAL" else text)
            return execute(client, *args, **options)

        return noted

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Notes what a test reached."""
        self._digests.clear()
        began = time.perf_counter()
        yield
        self._of[item.nodeid] = (time.perf_counter() - began, sorted(self._digests))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Hands it to the process that forked this one; nothing if a test failed."""
        if exitstatus == 0:
            self._file.write_text(json.dumps(self._of))


class _Trials:
    """A pytest plugin that runs the collected tests once as they are, then for each mutant those that reach it.

    alive: the mutants that no test noticed; None if the tests fail without any.
    """

    def __init__(self, tried: Sequence[Mutant], file: Path) -> None:
        self._tried, self._file = tried, file
        self.is_child = False
        self.alive: set[Mutant] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Forks. The new processes go on with pytest's own loop."""
        gc.unfreeze()
        loaded = [each for each in gc.get_objects() if type(each) is Script]
        gc.freeze()
        if not (process := os.fork()):
            self.is_child = True
            reached = _Reached(self._file)
            session.config.pluginmanager.register(reached)
            reached.begin()
            return None
        os.waitpid(process, 0)
        if not self._file.exists():
            return True
        known: Mapping[str, tuple[float, list[str]]] = json.loads(self._file.read_text())
        self.alive = set()
        running: dict[int, Mutant] = {}
        for mutant in self._tried:
            changed = _changed(mutant)
            digests = {each.digest for each in loaded if _replaced(each.text, changed) != each.text}
            digests.update(map(_digest, changed))
            items = [item for item in session.items if not digests.isdisjoint(known[item.nodeid][1])]
            if len(running) == (os.cpu_count() or 1):
                self._await(running)
            if not (process := os.fork()):
                self.is_child = True
                session.items[:] = sorted(items, key=lambda item: known[item.nodeid][0])
                _begin(mutant, changed, loaded)
                return None
            running[process] = mutant
        while running:
            self._await(running)
        return True

    def _await(self, running: dict[int, Mutant]) -> None:
        process, status = os.wait()
        mutant = running.pop(process)
        # 5: there was no test to run.
        if os.waitstatus_to_exitcode(status) in (0, 5):
            assert self.alive is not None
            self.alive.add(mutant)


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _changed(mutant: Mutant) -> Mapping[str, str]:
    """Returns the texts that contain the mutant's file, each with the mutant in it."""
    read = scripts._read
    before = {place: scripts.load(*place) for place in _places()}
    _read(mutant)
    after = {place: scripts.load(*place) for place in before}
    scripts._read = read
    scripts.load.cache_clear()
    return {before[place]: after[place] for place in before if before[place] != after[place]}


def _read(mutant: Mutant) -> None:
    """Lets the loader read the mutant in the place of its file."""
    source = (ROOT / mutant.file).read_text()
    read = scripts._read
    scripts._read = lambda package, name: (
        mutant.applied(source) if read(package, name) == source else read(package, name)
    )
    scripts.load.cache_clear()


def _replaced(text: str, changed: Mapping[str, str]) -> str:
    """Returns a script's text with the changed texts in it: scripts that are joined contain several."""
    for before, after in changed.items():
        text = text.replace(before, after)
    return text


def _begin(mutant: Mutant, changed: Mapping[str, str], loaded: Sequence[Script]) -> None:
    """Puts a mutant where its file is loaded, and where it was loaded before."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
    _read(mutant)
    for script in loaded:
        if (text := _replaced(script.text, changed)) != script.text:
            script.__init__(text, ours=script._ours)  # type: ignore[misc]
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if type(value) is str and value in changed:
                setattr(module, name, changed[value])


def _places() -> Iterator[tuple[str, str]]:
    for package in ("scheduler", "workers", "scalers"):
        for file in (ROOT / package / "lua").glob("*.lua"):
            yield package, file.stem
