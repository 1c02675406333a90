"""Trials in forks: tests are collected once, all of them run as they are, then for each mutant those that reach it.

The first process notes what each test reaches; then a process for each mutant runs its tests, the fastest first.
"""

import json
import os
import resource
import time
from collections.abc import Generator, Mapping, Sequence, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, Protocol, TypeVar

import pytest

Tried = TypeVar("Tried")
Given = TypeVar("Given", contravariant=True)

#: A test that waits for what its mutant never does: half as patient as usual.
WAITING = ("-o", "timeout=60")


class Way(Protocol[Given]):
    """The way in which mutants of one language are reached and put in place."""

    def watch(self, reached: set[str]) -> None:
        """Adds from now on to `reached` the names of what this process runs."""

    def names(self, mutant: Given) -> Set[str]:
        """Returns the names of which a test must reach one to notice the mutant."""

    def begin(self, mutant: Given) -> None:
        """Puts the mutant in place in this process."""


def survivors(
    way: Way[Tried],
    tried: Sequence[Tried],
    tests: Sequence[str],
    options: Sequence[str] = (),
    *,
    patience: int,
    failing: float = 0.0,
) -> Set[Tried]:
    """Returns the mutants that no test noticed.

    options: further ones of pytest. patience: CPU seconds of one mutant's tests; one that never ends is caught.
    failing: share of the tests that may fail without any mutant. Raises RuntimeError if more do.
    """
    with TemporaryDirectory() as folder:
        trials = _Trials(way, tried, Path(folder, "reached.json"), patience, failing)
        given = ["-x", "-q", *WAITING, "-o", f"cache_dir={folder}", "-p", "tests.mutants.quick", *options, *tests]
        code = pytest.main(given, plugins=[trials])
        if trials.is_child:
            # The folder is the parent's.
            os._exit(code)
    if trials.alive is None:
        raise RuntimeError(f"{trials.passed} of {trials.collected} tests pass without any mutant: {' '.join(tests)}")
    return trials.alive


class _Reached:
    """A pytest plugin that notes what each test reaches, and its seconds; only of tests that pass."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.names: set[str] = set()
        self._of: dict[str, tuple[float, list[str]]] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Notes what a test reached."""
        self.names.clear()
        began = time.perf_counter()
        yield
        if item.nodeid not in self._failed:
            self._of[item.nodeid] = (time.perf_counter() - began, sorted(self.names))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes that a test fails."""
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Hands the notes to the process that forked this one."""
        self._file.write_text(json.dumps(self._of))


class _Trials(Generic[Tried]):
    """A pytest plugin that runs the collected tests in further processes.

    alive: the mutants that no test noticed; None if too many tests fail without any.
    """

    def __init__(self, way: Way[Tried], tried: Sequence[Tried], file: Path, patience: int, failing: float) -> None:
        self._way, self._tried, self._file = way, tried, file
        self._patience, self._failing = patience, failing
        self.is_child = False
        self.collected = self.passed = 0
        self.alive: set[Tried] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Forks. The new processes go on with pytest's own loop."""
        if not (process := os.fork()):
            self.is_child = True
            reached = _Reached(self._file)
            session.config.pluginmanager.register(reached)
            session.config.option.maxfail = 0
            self._way.watch(reached.names)
            return None
        os.waitpid(process, 0)
        known: Mapping[str, tuple[float, list[str]]] = json.loads(self._file.read_text())
        self.collected, self.passed = len(session.items), len(known)
        if self.passed < (1 - self._failing) * self.collected:
            return True
        self.alive = set()
        running: dict[int, Tried] = {}
        for mutant in self._tried:
            names = self._way.names(mutant)
            items = [item for item in session.items if not names.isdisjoint(known.get(item.nodeid, (0, ()))[1])]
            if len(running) == (os.cpu_count() or 1):
                self._await(running, self.alive)
            if not (process := os.fork()):
                self.is_child = True
                session.items[:] = sorted(items, key=lambda item: known[item.nodeid][0])
                resource.setrlimit(resource.RLIMIT_CPU, (self._patience, self._patience))
                self._way.begin(mutant)
                return None
            running[process] = mutant
        while running:
            self._await(running, self.alive)
        return True

    def _await(self, running: dict[int, Tried], alive: set[Tried]) -> None:
        process, status = os.wait()
        mutant = running.pop(process)
        # 5: there was no test to run.
        if os.waitstatus_to_exitcode(status) in (0, 5):
            alive.add(mutant)
