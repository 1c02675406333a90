"""The home: the folder with the data, logs and credentials of an embedded Penstock."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local import private_files
from deploy.local.supervisor import guard
from workers.errors import UserError


class _Entry:
    """A file or folder of the home."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: "Home", _owner: object = None) -> Path:
        return home.root / self._name


@dataclass(frozen=True)
class Home:
    """The folder of an embedded Penstock."""

    root: Path

    kubeconfig = _Entry("kubeconfig")
    token = _Entry("token")
    #: The broker's data and configuration.
    data = _Entry("broker")
    #: The broker's URL, password included: only its owner can read it.
    url = _Entry("broker.url")
    #: The gateway's URL; of the last run while none runs.
    gateway_url = _Entry("gateway.url")
    #: The private key of the API server's certificate.
    key = _Entry("apiserver.key")
    #: The output of the parts, one file each.
    logs = _Entry("logs")
    #: A note per running part (`leftovers.Notes`).
    parts = _Entry("parts")
    pods = _Entry("pods")
    pod_logs = _Entry("pod-logs")
    #: Locked by the run that owns this home; contains its process id.
    lock = _Entry("lock")
    #: Locked while a `penstock up` starts an embedded cluster here.
    starting = _Entry("starting")

    def ready(self, name: str) -> Path:
        """Returns the file that appears when a part can be used."""
        return self.root / "ready" / name

    def broker_url(self) -> str | None:
        """Returns the broker URL of the last run, None before the first. Raises UserError if it may be planted."""
        text = private_files.read(self.url)
        if text is not None:
            private_files.check_folder(self.root)
        return (text or "").strip() or None


@contextmanager
def owned(home: Home) -> Iterator[None]:
    """Owns the home for the length of a block.

    Raises UserError naming the run that owns it already, the file in it that cannot be trusted, or why there can be no
    such folder.
    """
    try:
        home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        check(home)
        home.ready("").mkdir(exist_ok=True)
        descriptor = guard.hold(home.lock)
    except OSError as error:
        raise UserError(f"--home {home.root}: {error.strerror}") from error
    if descriptor is None:
        pid = guard.holder(home.lock)
        raise UserError(f"penstock up runs already in {home.root} (pid {pid}); stop it, or choose another --home")
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def starting(home: Home) -> Iterator[Callable[[], None]]:
    """Tells other commands that this home's cluster starts (`await_start`), until the yielded function is called.

    It comes before `owned`, which says what is wrong with a home: one that cannot be used, or in which another run
    starts, is no error here.
    """
    try:
        home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = guard.hold(home.starting)
    except OSError:
        descriptor = None
    if descriptor is None:
        yield lambda: None
        return
    with os.fdopen(descriptor, "w") as file:
        # Not by closing it: a process that was forked since may not have closed its descriptor yet.
        yield lambda: fcntl.flock(file, fcntl.LOCK_UN)


def await_start(home: Home, begun: Callable[[], None]) -> bool:
    """Waits while a `penstock up` starts the cluster of this home; returns True if one did.

    begun: called before a wait. A start ends when the cluster serves our kinds and the processes run, or with the
    process that starts it, so the wait has no limit of its own.
    """
    try:
        descriptor = os.open(home.starting, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(descriptor) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            begun()
            fcntl.flock(file, fcntl.LOCK_SH)
            return True
        return False


def check(home: Home) -> None:
    """Raises UserError for a home that others may change, links in it that lead elsewhere, and secrets others may read.

    An archive or a repository may bring such a folder along. Below `pods` and `pod-logs` only this user's pods write.
    """
    private_files.check_folder(home.root)
    for folder in (home.root, home.data, home.logs, home.parts, home.ready("")):
        for path in folder.iterdir() if folder.is_dir() else ():
            private_files.check_entry(path)
    for secret in (home.token, home.url, home.kubeconfig, home.key):
        private_files.read(secret)
