"""The message of a container's end: what it wrote into its message file, or the end of its output.

An isolated container finds the file at its `terminationMessagePath`, except below the kernel's folders, where no file
can be added. The default, ``/dev/termination-log``, is there: it needs an empty file of the machine, which root makes.
A container that is not isolated has only paths in its working directory.
"""

import contextlib
import os
from pathlib import Path

from deploy.local.kubelet.containers import log_files
from deploy.local.kubelet.containers.isolation import Bind
from workers.api.kinds import Object

#: The longest message from a file, and the longest and the most lines of one from the output, as in Kubernetes (bytes).
LONGEST = 4096
LONGEST_OUTPUT, MOST_LINES = 2048, 80
#: Where a container finds its message file if it does not say.
DEFAULT = "/dev/termination-log"

_TMP = Path("/tmp")
_KERNEL = (Path("/dev"), Path("/proc"), Path("/sys"))


def has_default() -> bool:
    """Returns whether this machine has a file at the default path, on which one can be mounted; makes it if it may."""
    place = Path(DEFAULT)
    with contextlib.suppress(OSError):
        if not place.exists():
            place.touch()
    return place.is_file()


def bind(spec: Object, attempt: Path, *, has_default: bool) -> Bind | None:
    """Returns the bind of the message file of an isolated container; None where it needs none, or has none. Pure.

    attempt: the folder of the attempt. Below a volume, and in the container's own folders, nothing is mounted.
    has_default: whether the machine has a file at the default path.
    """
    target = _target(spec, attempt)
    if str(target) == DEFAULT:
        return Bind(attempt / "message", target) if has_default else None
    own = (attempt.parent.parent, _TMP, *(Path(mount["mountPath"]) for mount in spec.get("volumeMounts") or ()))
    if any(target.is_relative_to(folder) for folder in (*own, *_KERNEL)) or target == Path("/"):
        return None
    return Bind(attempt / "message", target)


def of_end(spec: Object, attempt: Path, log: Path, code: int) -> str:
    """Returns the message of an attempt that has ended with this code; empty if there is none. log: its log file."""
    written = _tail(_file(spec, attempt), LONGEST)
    if written or code == 0 or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return written.decode(errors="replace")
    return log_files.last(log, MOST_LINES, LONGEST_OUTPUT).decode(errors="replace")


def _target(spec: Object, attempt: Path) -> Path:
    return Path(os.path.normpath(attempt / "work" / (spec.get("terminationMessagePath") or DEFAULT)))


def _file(spec: Object, attempt: Path) -> Path:
    """Returns the file that has what the container wrote."""
    target = _target(spec, attempt)
    if target.is_relative_to(attempt / "work"):
        return target
    if target.is_relative_to(_TMP) and not target.is_relative_to(attempt.parent.parent):
        return attempt / "tmp" / target.relative_to(_TMP)
    return attempt / "message"


def _tail(path: Path, longest: int) -> bytes:
    """Returns the last bytes of a regular file; none where there is no such file."""
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - longest))
                return file.read(longest)
    return b""
