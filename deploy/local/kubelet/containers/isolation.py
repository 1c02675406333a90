"""Isolation of containers: whether this machine allows it, what a container finds where, how to enter a running one.

Isolated means a mount and a process namespace of its own (see starter.py). On a machine that does not allow it, and
where it is switched off, containers are processes like any other.
"""

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from deploy.local.kubelet.containers import starter
from deploy.local.kubelet.containers.starter import CannotStart
from workers.api.kinds import Object
from workers.errors import UserError

log = logging.getLogger(__name__)

#: The setting `isolation`: `auto` isolates where the machine allows it, `required` runs no pod elsewhere.
IsolationMode = Literal["auto", "none", "required"]

_TMP = Path("/tmp")


class NotIsolated(UserError):  # noqa: N818 - says what it is
    """Isolation is required, and this machine does not allow it."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the machine (source) at a path of the container (target)."""

    source: Path
    target: Path
    read_only: bool = False


def binds(attempt: Path, pod: Path, kept: Iterable[Path], volumes: Iterable[Bind]) -> tuple[Bind, ...]:
    """Returns everything of a container that is not the read-only machine, outer folders first. Pure.

    attempt, pod: their folders. kept: folders that stay visible should they be below /tmp, which is the container's,
    and not below a volume.
    """
    volumes = tuple(volumes)
    covered = (pod, *(volume.target for volume in volumes if volume.target not in (_TMP, *_TMP.parents)))
    hidden = (path for path in kept if _TMP in path.parents and not any(path.is_relative_to(one) for one in covered))
    found = [
        Bind(attempt / "tmp", _TMP),
        *(Bind(path, path, read_only=True) for path in hidden),
        Bind(pod, pod),
        *volumes,
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda bind: len(bind.target.parts)))


def used_folders() -> tuple[Path, ...]:
    """Returns the folders that commands need: the current one, and those of the interpreter and of its modules.

    Ours are named apart: the modules of an editable installation need not be on the path.
    """
    ours = Path(__file__).parents[len(__name__.split(".")) - 1]
    found = (Path.cwd(), ours, *map(Path, (sys.prefix, sys.base_prefix, *sys.path)))
    return tuple(dict.fromkeys(path.resolve() for path in found if path.exists()))


def entering(pid: int) -> tuple[str, ...]:
    """Returns the words before a command that run it inside a container, in its working directory.

    pid: of the container's shim. Empty for a container that is not isolated: there the caller chooses the directory.
    """
    if not _differs(pid, "mnt"):
        return ()
    user = ("--user", "--preserve-credentials") if _differs(pid, "user") else ()
    return ("nsenter", "--target", str(pid), *user, "--mount", "--pid", "--wd", "--")


def _differs(pid: int, namespace: str) -> bool:
    try:
        return Path(f"/proc/{pid}/ns/{namespace}").readlink() != Path(f"/proc/self/ns/{namespace}").readlink()
    except OSError:
        return False


class Isolation:
    """Starts isolated containers. obstacle: why this machine starts none; None where it does.

    Decides by trying, once. folder: for the trial.
    """

    #: The command line of the starter.
    command: Sequence[str] = (sys.executable, "-I", "-S", starter.__file__)

    def __init__(self, wanted: IsolationMode, folder: Path) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._required = wanted == "required"
        self._kept = used_folders()
        self.obstacle = "PENSTOCK_ISOLATION=none" if wanted == "none" else self._try(folder)
        if wanted != "none":
            shown = {"isolated": self.obstacle is None, "reason": self.obstacle}
            log.log(logging.INFO if self.obstacle is None else logging.WARNING, "isolation of containers", extra=shown)

    def check(self) -> None:
        """Raises NotIsolated if containers must be isolated and cannot."""
        if self._required and self.obstacle is not None:
            raise NotIsolated(f"isolation is required (PENSTOCK_ISOLATION), and there is none: {self.obstacle}")

    def request(
        self,
        folder: Path,
        words: Sequence[str],
        volumes: Iterable[Bind],
        *,
        shim: Sequence[str] = (),
        env: Mapping[str, str] = MappingProxyType({}),
        cwd: Path = Path("/"),
        streams: tuple[int, int],
    ) -> int:
        """Has the shim started with the command (words); a descriptor for `answer`, readable when there is one.

        folder: the attempt's, which exists. streams: descriptors of standard output and standard error.
        """
        for name in ("root", "tmp"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        kept = (*self._kept, cwd) if cwd.exists() else self._kept
        listed = binds(folder, folder.parent.parent, kept, volumes)
        shown = [{"source": str(one.source), "target": str(one.target), "read_only": one.read_only} for one in listed]
        command = {"shim": list(shim), "command": list(words), "env": dict(env), "cwd": str(cwd)}
        return self._send({"root": str(folder / "root"), "binds": shown, **command}, streams)

    def close(self) -> None:
        """Ends the starter; the containers go on."""
        if self._process is None or self._requests is None:
            return
        self._requests.close()
        self._process.wait()
        self._process = None

    def _try(self, folder: Path) -> str | None:
        if not hasattr(os, "memfd_create"):
            return "only Linux has namespaces"
        if shutil.which("nsenter") is None:
            return "there is no nsenter (of util-linux) to enter a namespace"
        attempt = folder / "trial" / "0"
        attempt.mkdir(parents=True, exist_ok=True)
        try:
            answer(self.request(attempt, (), (), streams=(0, 0)))
        except (CannotStart, OSError) as error:
            self.close()
            return f"this machine does not allow namespaces: {error}"
        finally:
            shutil.rmtree(folder / "trial", ignore_errors=True)
        return None

    def _send(self, request: Object, streams: tuple[int, int]) -> int:
        """Sends a request, to another starter if that one has ended. Raises CannotStart."""
        if self._process is None or self._process.poll() is not None:
            self._open()
        assert self._requests is not None
        answers, pipe = os.pipe()
        with os.fdopen(os.memfd_create("request"), "w+b") as content:
            content.write(json.dumps(request).encode())
            content.seek(0)
            try:
                socket.send_fds(self._requests, [b"."], [content.fileno(), *streams, pipe])
            except OSError as error:
                os.close(answers)
                raise CannotStart("isolation", f"the process that starts containers has ended: {error}") from error
            finally:
                os.close(pipe)
        return answers

    def _open(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self.command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._requests = ours


def answer(descriptor: int) -> int:
    """Returns the process id of a shim that was asked for, once it has begun. Raises CannotStart."""
    with os.fdopen(descriptor) as lines:
        found = [json.loads(line) for line in lines]
    if not found:
        raise CannotStart("isolation", "the process that starts containers has ended")
    if "error" in found[-1]:
        raise CannotStart(found[-1]["kind"], found[-1]["error"])
    return int(found[-1]["pid"])
