"""The embedded API server for tests: a real process on a free loopback port, stopped by its id."""

import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.fork_parent import FORKS, Forked
from tests.support.ports import free_port
from tests.support.valkeys import ValkeyServer

#: Seconds a server may take to start on a busy machine.
START = 90.0


@dataclass
class Embedded:
    """One embedded API server: its files live in `folder`, its objects in the Redis server at `store`."""

    folder: Path
    store: str
    arguments: tuple[str, ...] = ()
    forked: bool = True
    process: "Forked | subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig for its clients."""
        return self.folder / "kubeconfig"

    @property
    def logs(self) -> Path:
        """The folder of the containers' output."""
        return self.folder / "logs"

    @property
    def _cluster(self) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        return config

    @property
    def url(self) -> str:
        """Its address, ``https://127.0.0.1:<port>``."""
        return str(self._cluster["clusters"][0]["cluster"]["server"])

    @property
    def authority(self) -> str:
        """The certificate clients trust, as PEM."""
        return base64.b64decode(self._cluster["clusters"][0]["cluster"]["certificate-authority-data"]).decode()

    @property
    def token(self) -> str:
        """The bearer token clients need."""
        return str(self._cluster["users"][0]["user"]["token"])

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        # Its first port is reserved while it is down: a server that starts again wants its last one.
        port = () if self.kubeconfig.exists() else ("--port", str(free_port()))
        words = [
            *("--store", self.store, "--token-file", str(self.folder / "token")),
            *("--kubeconfig", str(self.kubeconfig), "--logs", str(self.logs)),
            *("--ready-file", str(ready), *port, *self.arguments),
        ]
        with (self.folder / "output.txt").open("ab") as output:
            if self.forked:
                self.process = FORKS.start("deploy.local.apiserver", words, output)
            else:
                argv = [sys.executable, "-m", "deploy.local.apiserver", *words]
                self.process = subprocess.Popen(argv, stdout=output, stderr=output)
        end = time.monotonic() + START
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"no embedded API server: {self.output}")
            time.sleep(0.02)

    @property
    def output(self) -> str:
        """Its output so far."""
        return (self.folder / "output.txt").read_text()

    def stop(self) -> None:
        """Ends the process in an orderly way."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self) -> None:
        """Ends the process as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def embedded_apiserver(
    folder: Path, store: str | None = None, *arguments: str, forked: bool = True
) -> Iterator[Embedded]:
    """A running server; without a store it brings its own broker, which forgets everything in the end.

    forked: its memory is partly that of others. Who measures a server starts it by itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if store is None:
        with (
            ValkeyServer(config={"save": ""}) as broker,
            embedded_apiserver(folder, f"{broker.connection_url}/0", *arguments, forked=forked) as server,
        ):
            yield server
        return
    server = Embedded(folder, store, arguments, forked)
    server.start()
    try:
        yield server
    finally:
        server.stop()
