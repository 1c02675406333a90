"""An installation whose parts this process and its fork server started, and how one of them is killed."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import psutil

from deploy.local import up
from deploy.local.parts import UpOptions
from tests.support.fork_parent import FORKS
from workers.client.rest import Cluster
from workers.errors import PenstockError
from workers.settings import Settings

#: A part, and words of its command line that no other part has together; of a path the last name counts.
PARTS = {
    "worker": ("penstock.reconcile", "worker"),
    "scaler": ("penstock.poll", "worker"),
    "beat": ("__main__.py", "beat"),
    "watch": ("__main__.py", "watch"),
    "apiserver": ("__main__.py", "apiserver"),
    "kubelet": ("__main__.py", "kubelet"),
    "gateway": ("__main__.py", "gateway"),
    "broker": ("valkey-server",),
}


#: Children of this process that are older than the installation, such as the server that other tests share.
STRANGERS: set[psutil.Process] = set()


class Over(PenstockError):  # noqa: N818
    """The test has seen enough."""


def settings(home: Path, **more: Any) -> Settings:
    """Settings with short leases: what a killed part held waits for as long as a lease lasts."""
    # Pods write what they did into folders of the test.
    return Settings(home=home, lease=5.0, leadership=3, isolation="none", **more)


def process(part: str, spared: Collection[psutil.Process] = ()) -> psutil.Process | None:
    """The part's process as it is now: the supervisor starts a new one after each death.

    spared: processes that look like a part and are none.
    """
    for child in _started():
        if child in spared or child in STRANGERS:
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            # A server may have rewritten its command line as one word.
            words = {word.rpartition("/")[2] for text in child.cmdline() for word in text.split()}
            if words.issuperset(PARTS[part]):
                return child
    return None


def _started() -> list[psutil.Process]:
    return psutil.Process().children() + FORKS.parts()


def kill(part: str, spared: Collection[psutil.Process] = ()) -> bool:
    """With -9, if it lives right now; whether it did."""
    if victim := process(part, spared):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            return True
    return False


async def kill_each(parts: Collection[str], rounds: int, pause: float, spared: Collection[psutil.Process] = ()) -> None:
    """Every part in turn, each round in another order; one that is dead already dies again once it is back.

    pause: the longest between two deaths, seconds.
    """
    for _ in range(rounds):
        for part in random.sample(sorted(parts), len(parts)):
            await asyncio.sleep(random.uniform(pause / 4, pause))
            while not kill(part, spared):
                await asyncio.sleep(0.02)


def run_installation(home: Path, happen: Callable[[Cluster, up.RunningPart], Awaitable[None]], **more: Any) -> None:
    """Starts an installation in this folder, runs `happen`, stops it, and asserts that no process is left.

    more: settings that differ from `settings`.
    """

    async def started(running: up.RunningPart) -> None:
        async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
            await happen(cluster, running)
        raise Over

    with FORKS.forking() as forks:
        before = _started()
        with contextlib.suppress(Over):
            asyncio.run(up.run(UpOptions(settings(home, **more)), started=started, forks=forks))
        assert set(_started()) <= set(before), "a process was left running"
