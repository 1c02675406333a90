"""Tries mutants that mutmut made: ``python -m tests.mutants.trials NAMES TESTS...``, with its Python, in its tree.

NAMES: a file with one mutant a line. Prints `alive` or `caught` and the name, one mutant a line.

The tests are collected once. A first process runs all of them and notes which functions each reaches; then a process
for each mutant runs the tests that reach its function, the fastest first. mutmut itself would run all of them two more
times before the first mutant, which takes ten minutes on a small machine.
"""

import json
import os
import re
import resource
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from mutmut.mutation import trampoline  # type: ignore[import-not-found]

#: CPU seconds that the tests of a mutant may take; one that never ends is caught.
PATIENCE = 120
#: Share of the tests that may fail without any mutant: some count calls, and mutmut's wrappers are calls.
FAILING = 0.05

_NUMBER = re.compile(r"__mutmut_\d+$")


class Reached:
    """A pytest plugin that notes the functions that each test reaches, and its CPU seconds; only of tests that pass."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[float, list[str]]] = {}
        self._hits: set[str] = set()
        self._failed: set[str] = set()

    def begin(self) -> None:
        """Lets mutmut's wrappers call this."""
        trampoline.set_mutant_under_test("stats")
        trampoline.record_trampoline_hit = lambda name, caller: self._hits.add(name)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """Notes what a test reached."""
        self._hits.clear()
        began = time.process_time()
        yield
        if item.nodeid not in self._failed:
            self.of[item.nodeid] = (time.process_time() - began, sorted(self._hits))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes that a test fails."""
        if report.failed:
            self._failed.add(report.nodeid)


class Trials:
    """A pytest plugin that runs the collected tests in further processes."""

    def __init__(self, names: Sequence[str], file: Path) -> None:
        self._names, self._file = names, file
        self.role = "parent"
        self.reached = Reached()
        self.alive: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Forks. The new processes go on with pytest's own loop."""
        if not (process := os.fork()):
            self.role = "reached"
            session.config.pluginmanager.register(self.reached)
            session.config.option.maxfail = 0
            self.reached.begin()
            return None
        os.waitpid(process, 0)
        known: Mapping[str, tuple[float, list[str]]] = json.loads(self._file.read_text())
        if len(known) < (1 - FAILING) * len(session.items):
            raise RuntimeError(f"only {len(known)} of {len(session.items)} tests pass without any mutant")
        running: dict[int, str] = {}
        for name in self._names:
            function = _NUMBER.sub("", name)
            items = [item for item in session.items if function in known.get(item.nodeid, (0, []))[1]]
            if len(running) == (os.cpu_count() or 1):
                self._await(running)
            if not (process := os.fork()):
                self.role = "mutant"
                session.items[:] = sorted(items, key=lambda item: known[item.nodeid][0])
                resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
                trampoline.set_mutant_under_test(name)
                return None
            running[process] = name
        while running:
            self._await(running)
        return True

    def _await(self, running: dict[int, str]) -> None:
        process, status = os.wait()
        name = running.pop(process)
        # 5: there was no test to run.
        said = "alive" if os.waitstatus_to_exitcode(status) in (0, 5) else "caught"
        print(said, name, file=sys.__stderr__, flush=True)


def main(names: str, *tests: str) -> None:
    """Prints what became of each mutant, on standard error: pytest holds the other."""
    with TemporaryDirectory() as folder:
        trials = Trials(Path(names).read_text().split(), Path(folder) / "reached.json")
        options = ["-x", "-q", "-o", f"cache_dir={folder}", "-p", "no:xdist", "-p", "tests.mutants.quick"]
        code: Any = pytest.main([*options, *tests], plugins=[trials])
        if trials.role == "reached":
            trials._file.write_text(json.dumps(trials.reached.of))
        if trials.role != "parent":
            os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
