"""The parts of a house that runs under this process, and how one of them dies."""

import contextlib
from collections.abc import Collection

import psutil

from workers.errors import PenstockError

#: A part, and words that only its command line has.
PARTS = {
    "worker": ("penstock.reconcile", "worker"),
    "scaler": ("penstock.poll", "worker"),
    "beat": ("deploy.cli.main", "beat"),
    "watch": ("deploy.cli.main", "watch"),
    "apiserver": ("deploy.local.apiserver",),
    "kubelet": ("deploy.local.kubelet",),
    "broker": ("valkey-server",),
}


#: Children of this process that are older than the house, such as the server that other tests share: no part of it.
STRANGERS: set[psutil.Process] = set()


class Over(PenstockError):  # noqa: N818
    """The test has seen enough."""


def process(part: str, spared: Collection[psutil.Process] = ()) -> psutil.Process | None:
    """The part's process as it is now: the supervisor starts a new one after each death.

    spared: processes that look like a part and are none.
    """
    for child in psutil.Process().children():
        if child in spared or child in STRANGERS:
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            words = child.cmdline()
            if all(any(wanted in word for word in words) for wanted in PARTS[part]):
                return child
    return None


def kill(part: str, spared: Collection[psutil.Process] = ()) -> None:
    """With -9, if it lives right now."""
    if victim := process(part, spared):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
