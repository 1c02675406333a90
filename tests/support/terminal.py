"""A terminal for acceptance tests: command lines as a user types them, and `penstock up` in a temporary home."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from tests.support.forks import ForkServer
from tests.support.paths import ROOT

#: Seconds anything here may take; a busy machine starts seven Python processes slowly.
PATIENCE = 90.0
#: The command of this checkout, in whatever folder it is typed.
COMMAND = (sys.executable, "-P", str(ROOT / "penstock" / "__main__.py"))

_forks = ForkServer()
#: Commands that were carried out by a process of their own.
_typed: set[str] = set()


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE, pause: float = 0.05) -> Any:
    """Poll until the condition is true, with pauses of this many seconds; its value."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(pause)
    return value


def environment(**variables: str) -> dict[str, str]:
    """This machine's environment without settings and kubeconfigs of the user who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KUBE"))}
    # The code of this checkout, wherever the installed package points to.
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


@dataclass(frozen=True)
class Terminal:
    """A terminal with these variables set."""

    variables: Mapping[str, str]
    folder: Path

    @classmethod
    def of(cls, folder: Path) -> "Terminal":
        """A terminal in this folder, which holds the home of `penstock up` too."""
        return cls({"PENSTOCK_HOME": str(folder / "home"), "HOME": str(folder)}, folder)

    def type(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """One command line that must end with this exit code; what it printed, errors last.

        The first line of each command is a process of its own; what follows are forks that need not import anything.
        """
        variables = environment(**self.variables)
        if words[0] in _typed:
            done = _forks.run(words, stdin=stdin, folder=self.folder, environment=variables, timeout=PATIENCE)
        else:
            _typed.add(words[0])
            done = subprocess.run(
                [*COMMAND, *words],
                input=stdin,
                capture_output=True,
                text=True,
                cwd=self.folder,
                env=variables,
                timeout=PATIENCE,
            )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def start(self, *words: str, output: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on; ended with the block if it has not ended by itself."""
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env=environment(PYTHONUNBUFFERED="1", **self.variables),
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


def family(pid: int) -> list[psutil.Process]:
    """A process's descendants."""
    return psutil.Process(pid).children(recursive=True)


def gone(processes: Sequence[psutil.Process]) -> bool:
    """Returns True if none of them runs any more."""
    return not any(_runs(process) for process in processes)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        # It was reaped between the two questions.
        return False


@contextlib.contextmanager
def running(terminal: Terminal, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`penstock up`, until it says that all is ready."""
    with log.open("w") as output, terminal.start("up", *words, output=output) as process:

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return "Ctrl-C stops everything" in log.read_text()

        until(ready, f"up is ready: {log}")
        yield process
