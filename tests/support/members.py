"""An installation with any number of each process; each reaches its broker and its API server by links of its own.

Nothing starts a process again when it is killed: who takes over is another one.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from deploy.cli import forked_parts
from deploy.processes import command_lines, readiness
from tests.support.conditions import eventually
from tests.support.embedded import Embedded, embedded_apiserver
from tests.support.fork_parent import FORKS, Forked
from tests.support.links import Link, Relay, relay
from tests.support.ports import free_port
from tests.support.valkeys import ValkeyServer

#: The parts of an installation that run anywhere, and how each is started.
PARTS = ("watch", "beat", "scaler", "worker", "gateway")
#: Seconds a process may take to start, or to end, on a busy machine.
PATIENCE = 90.0


@dataclass
class Member:
    """One process. part: its sort. broker, api: its links. url: where a gateway listens."""

    name: str
    part: str
    process: "Forked | subprocess.Popen[bytes]"
    broker: Link
    api: Link
    log: Path
    ready: Path
    url: str = ""

    @property
    def alive(self) -> bool:
        """Returns true while the process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """With -9."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """It stands still until it is resumed."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Ends it in an orderly way; returns its exit code."""
        if self.alive:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode

    def heal(self) -> None:
        """Both links pass everything."""
        self.broker.heal()
        self.api.heal()

    @property
    def output(self) -> str:
        """What it logged so far."""
        return self.log.read_text(errors="replace")


@dataclass
class Installation:
    """One broker, one API server with a kubelet, one server of queues, and the processes that tests start.

    settings: PENSTOCK_* variables of every process, by their names after the prefix in lower case.
    """

    folder: Path
    apiserver: Embedded
    broker: ValkeyServer
    queues: ValkeyServer
    relay: Relay
    settings: Mapping[str, str] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """How tests reach the API server, past all links."""
        return self.apiserver.kubeconfig

    @property
    def broker_url(self) -> str:
        """How tests reach the broker, past all links."""
        return f"{self.broker.connection_url}/0"

    def start(self, part: str, number: int, *, tree: Path | None = None) -> Member:
        """Starts a process. tree: of another release's files, else of this one's."""
        name = f"{part}-{number}" if tree is None else f"{part}-{number}-{tree.name}"
        api, broker = urlsplit(self.apiserver.url), urlsplit(self.broker.connection_url)
        links = (
            self.relay.link("127.0.0.1", broker.port or 6379),
            self.relay.link(api.hostname or "127.0.0.1", api.port or 443),
        )
        ready, log = self.folder / f"{name}.ready", self.folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        listen = f"127.0.0.1:{free_port()}"
        settings = {
            "broker": f"redis://127.0.0.1:{links[0].port}/0",
            "kubeconfig": str(self._kubeconfig(name, links[1])),
            "home": str(self.folder / "home"),
            "gateway": listen,
            "page": "off",
            **self.settings,
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        environment = {**kept, **{f"PENSTOCK_{key.upper()}": value for key, value in settings.items()}}
        environment[readiness.VARIABLE] = str(ready)
        # As a user types it: each release has command lines of its own for Celery.
        words = command_lines.own(part, *(("--number", str(number)) if part in ("worker", "scaler") else ()))
        own = len(command_lines.own())
        process: Forked | subprocess.Popen[bytes]
        with log.open("ab") as output:
            if tree is None:
                process = FORKS.start(
                    forked_parts.COMMAND, words[own:], output, folder=self.folder, environment=environment
                )
            else:
                process = subprocess.Popen(
                    (*words[: own - 1], str(tree / "penstock" / "__main__.py"), *words[own:]),
                    cwd=self.folder,
                    env=environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        self.members[name] = Member(name, part, process, *links, log, ready, f"http://{listen}")
        return self.members[name]

    async def ready(self) -> None:
        """Returns once all that live are ready."""

        def so() -> bool:
            for member in self.members.values():
                ended = (0, -signal.SIGKILL, -signal.SIGTERM)
                assert member.alive or member.process.returncode in ended, member.output
            return all(member.ready.exists() for member in self.members.values() if member.alive)

        await eventually(
            so, PATIENCE, told=lambda: f"ready: {sorted(path.name for path in self.folder.glob('*.ready'))}"
        )

    def of(self, part: str) -> list[Member]:
        """Returns the living members of one sort."""
        return [member for member in self.members.values() if member.part == part and member.alive]

    def stop(self) -> None:
        """Ends all of them side by side."""
        for member in self.members.values():
            if member.alive:
                member.resume()
                member.heal()
                member.process.terminate()
        for member in self.members.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                member.process.wait(PATIENCE)
            if member.alive:
                member.kill()

    def _kubeconfig(self, name: str, link: Link) -> Path:
        config: dict[str, Any] = yaml.safe_load(self.apiserver.kubeconfig.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{link.port}"
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path


@contextmanager
def installation(folder: Path, *, pods: int = 8, **settings: str) -> Iterator[Installation]:
    """An installation without processes of ours so far; it ends those that a test starts."""
    quiet = {"save": ""}
    with ExitStack() as stack:
        apiserver = stack.enter_context(embedded_apiserver(folder / "cluster"))
        broker = stack.enter_context(ValkeyServer(config=quiet))
        queues = stack.enter_context(ValkeyServer(config={**quiet, "notify-keyspace-events": "Klst"}))
        made = Installation(
            folder, apiserver, broker, queues, stack.enter_context(relay()), {"jobs": "all", **settings}
        )
        stack.callback(made.stop)
        stack.enter_context(_kubelet(apiserver, folder, pods))
        yield made


@contextmanager
def _kubelet(apiserver: Embedded, folder: Path, pods: int) -> Iterator[None]:
    ready = folder / "kubelet.ready"
    words = ["--kubeconfig", str(apiserver.kubeconfig), "--logs", str(apiserver.logs), "--root", str(folder / "pods")]
    words += ["--max-pods", str(pods), "--isolation", "none", "--ready-file", str(ready)]
    with (folder / "kubelet.log").open("wb") as log:
        process = FORKS.start("deploy.local.kubelet", words, log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def temporary(**settings: str) -> Iterator[Installation]:
    """An installation in a folder that is deleted in the end."""
    with tempfile.TemporaryDirectory() as folder, installation(Path(folder), **settings) as made:
        yield made
