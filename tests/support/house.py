"""A whole Penstock beside a cluster that it did not bring: ``penstock up --kubeconfig`` and a process kubelet."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import contents, kube
from tests.support.embedded import embedded_apiserver
from tests.support.fork_parent import FORKS

#: Seconds that eight Python processes may take to start, or to stop, on a busy machine.
PATIENCE = 90.0


@dataclass(frozen=True)
class House:
    """kubeconfig: how to reach its cluster. logs: the folder of the pods' output. home: of Penstock's own parts."""

    kubeconfig: Path
    logs: Path
    home: Path


@contextmanager
def house(which: str, folder: Path, **settings: str) -> Iterator[House]:
    """Everything running, on the ``embedded`` API server or a ``real`` one; it runs the pods of every Job.

    settings: further PENSTOCK_* variables by their names after the prefix, in lower case.
    """
    with ExitStack() as stack:
        if which == "embedded":
            gangs = ("--gangs", "volcano") if settings.get("volcano") == "true" else ()
            server = stack.enter_context(embedded_apiserver(folder / "cluster", None, *gangs))
            kubeconfig, logs = server.kubeconfig, server.logs
        else:
            kubeconfig = stack.enter_context(kube.control_plane(kube.assets(), folder / "cluster")).kubeconfig
            logs = folder / "logs"
        home = folder / "home"
        variables = {"jobs": "all", "home": str(home), **settings}
        up = ["deploy.cli.main", "up", "--kubeconfig", str(kubeconfig), "--install-crds"]
        stack.enter_context(_process(folder / "up.log", up, variables, lambda log: "Ctrl-C stops everything" in log))
        ready = folder / "kubelet.ready"
        kubelet = ["deploy.local.kubelet", "--kubeconfig", str(kubeconfig), "--logs", str(logs)]
        kubelet += ["--root", str(folder / "pods"), "--max-pods", "4", "--ready-file", str(ready)]
        # Pods write what they did into folders of the test.
        kubelet += ["--isolation", "none"]
        stack.enter_context(_process(folder / "kubelet.log", kubelet, {}, lambda _: ready.exists()))
        yield House(kubeconfig, logs, home)


class Houses(AbstractContextManager["Houses"]):
    """One running house at a time, which is kept as long as the same settings are asked for.

    folder: makes a new folder for each.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._settings: Mapping[str, str] | None = None
        self._house: House | None = None
        self._first: frozenset[str] = frozenset()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def with_settings(self, settings: Mapping[str, str]) -> House:
        """The house with these settings, on an embedded cluster without objects of others."""
        if self._house is None or settings != self._settings:
            self._stack.close()
            self._house = self._stack.enter_context(house("embedded", self._folder(), **settings))
            self._settings = dict(settings)
            self._first = asyncio.run(contents.paths(self._house.kubeconfig))
        return self._house

    def clear(self) -> None:
        """Deletes all objects that were not there at first. A house that keeps one is not used again."""
        assert self._house is not None
        try:
            asyncio.run(contents.delete(self._house.kubeconfig, keep=self._first))
        except BaseException:
            self._house = None
            raise


@contextmanager
def _process(
    log: Path, words: Sequence[str], settings: Mapping[str, str], ready: Callable[[str], bool]
) -> Iterator[None]:
    """A process of ours, once it is ready; stopped by SIGTERM."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    environment = {**kept, **{f"PENSTOCK_{name.upper()}": value for name, value in settings.items()}}
    with log.open("wb") as output:
        process = FORKS.start(words[0], words[1:], output, environment=environment)
    try:
        end = time.monotonic() + PATIENCE
        while not ready(log.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"not ready: {' '.join(words)}\n{log.read_text()}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
