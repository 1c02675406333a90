"""The starter: a small process that starts containers in a mount and a process namespace of their own (Linux).

The kubelet has threads and may not change its own namespaces, and a new interpreter per container would cost 20 ms.
This process forks instead: its child makes the container's root and becomes the container's shim. It ends with the
kubelet; its containers do not.

The root of a container is the machine's, read-only but for /dev, with the binds of the request in their places. A path
that the machine does not have is added by an overlay over its nearest folder, or in the root itself.

A request is one byte on standard input, a socket, with four descriptors: the request as JSON, standard output, standard
error, and a pipe for answers, one JSON object per line. The pipe closes when the shim has begun.

This file is run without site packages, and therefore imports the standard library only.
"""

import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: Constants of linux/mount.h and linux/sched.h.
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _MOVE, _REC = 1, 2, 4, 8, 1 << 12, 1 << 13, 1 << 14
_UNBINDABLE, _PRIVATE, _SLAVE = 1 << 17, 1 << 18, 1 << 19
_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000
_DETACH, _AT_FDCWD, _AT_RECURSIVE = 2, -100, 0x8000
#: These system calls have one number on all architectures; the C library has a function for the first since 2022 only.
_MOUNT_SETATTR, _CLONE3 = 442, 435

#: Where the machine's root and what overlays add are found while a container's root is made.
_HOST, _ADDED = "/.host", "/.added"
#: The machine's sockets, and mounts of its own.
_RUN = ("/run", "/var/run")
#: File systems of the kernel, in which no place can be added.
_KERNEL = ("/dev", "/proc", "/sys")
#: The shim's descriptor of the machine's /proc, from which it reads its process id outside.
PROC = 9


class CannotStart(Exception):  # noqa: N818 - says what it is
    """The container cannot be started. kind: program, mount or isolation, whichever is to blame."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def find_program(program: str, path: str, directory: Path) -> str:
    """Returns the path of a program, with a slash always: a shell must not take it for one of its own commands.

    directory: the working directory. Raises CannotStart when it or the program does not exist.
    """
    if not directory.is_dir():
        raise CannotStart("program", f"workingDir {directory}: no such directory")
    found = str(directory / program) if "/" in program else shutil.which(program, path=path)
    if found is None or not Path(found).is_file():
        raise CannotStart(
            "program", f"{program}: no such program (PATH={path}); images are not pulled, commands run as they are"
        )
    if not os.access(found, os.X_OK):
        raise CannotStart("program", f"{program}: not executable")
    return found


def missing(targets: Sequence[str], exists: Callable[[str], bool]) -> dict[str, list[str]]:
    """Returns the targets that must be made, by the nearest folder that exists; outer folders first. Pure.

    One below another target is left out: what is mounted there decides about it.
    """
    found: dict[str, list[str]] = {}
    for target in targets:
        parents = [str(parent) for parent in Path(target).parents]
        if not exists(target) and not any(parent in targets for parent in parents):
            found.setdefault(next(parent for parent in parents if exists(parent)), []).append(target)
    return dict(sorted(found.items(), key=lambda entry: len(Path(entry[0]).parts)))


# -- system calls ----------------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    """Calls a function of the C library. Raises OSError when it fails."""
    found: int = getattr(_libc, name)(*(os.fsencode(one) if isinstance(one, str) else one for one in arguments))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def _fork() -> int:
    """As os.fork; the child has a mount and a process namespace of its own, and is the first process of the latter.

    os.fork and unshare would take two children. This process has one thread, and no handlers of forks.
    """
    asked = (ctypes.c_uint64 * 8)(_NEWNS | _NEWPID, 0, 0, 0, signal.SIGCHLD)
    return _call("syscall", ctypes.c_long(_CLONE3), asked, ctypes.c_long(ctypes.sizeof(asked)))


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), options)


def _make_read_only(path: str, flags: int = _AT_RECURSIVE, *, undo: bool = False) -> None:
    attributes = (ctypes.c_uint64 * 4)(*((0, _RDONLY) if undo else (_RDONLY, 0)))
    # As longs: the upper half of a register that takes an int may hold anything.
    number, folder, size = map(ctypes.c_long, (_MOUNT_SETATTR, _AT_FDCWD, ctypes.sizeof(attributes)))
    _call("syscall", number, folder, path, ctypes.c_long(flags), attributes, size)


def _enter() -> None:
    """Takes the right to mount: root's own, or that of a user namespace in which user and group keep their numbers."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        # Root of a container may lack this right.
        with contextlib.suppress(PermissionError):
            _call("unshare", _NEWNS)
            return
    _call("unshare", _NEWUSER | _NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="utf-8")


# -- the root of a container -----------------------------------------------------------------------------------------


def _make_root(root: str, binds: Iterable[Mapping[str, Any]]) -> None:
    """Makes a new root, and makes it that of this process. root: an empty folder."""
    # What the machine unmounts goes away here too; what is mounted here stays here.
    _mount("none", "/", None, _REC | _SLAVE)
    # A link could lead elsewhere in the new root.
    placed = [(_HOST + os.path.realpath(bind["source"]), bind["target"], bind["read_only"]) for bind in binds]
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    # Else the copies of the machine's folders contained it.
    _mount("none", root, None, _UNBINDABLE)
    _show_machine(root)
    _call("pivot_root", root, root + _HOST)
    os.chdir("/")
    _mount("none", "/", None, _PRIVATE)
    _add_places({target: Path(source).is_dir() for source, target, _ in placed})
    for source, target, read_only in placed:
        try:
            _bind(source, target, read_only=read_only)
        except OSError as error:
            raise CannotStart("mount", f"{source.removeprefix(_HOST)} at {target}: {error.strerror}") from error
    _call("umount2", _HOST, _DETACH)
    Path(_HOST).rmdir()
    _make_read_only("/", 0)


def _show_machine(root: str) -> None:
    """Shows all of the machine in the new root, read-only. Devices stay writable; /tmp is the container's."""
    with os.scandir("/") as entries:
        for entry in entries:
            target = root + entry.path
            if entry.is_symlink():
                Path(target).symlink_to(Path(entry.path).readlink())
                continue
            _make_place(target, folder=entry.is_dir())
            if entry.name not in ("tmp", "dev"):
                _mount(entry.path, target, None, _BIND | _REC)
    Path(root + _HOST).mkdir()
    _make_read_only(root)
    # Until all places are made.
    _make_read_only(root, 0, undo=True)
    _mount("/dev", f"{root}/dev", None, _BIND | _REC)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    if not Path(target).exists():
        _make_place(target, folder=Path(source).is_dir())
    _mount(source, target, None, _BIND | _REC)
    if read_only:
        _make_read_only(target)


def _make_place(path: str, *, folder: bool) -> None:
    """Makes the folder or file on which something is mounted."""
    place = Path(path)
    (place if folder else place.parent).mkdir(parents=True, exist_ok=True)
    if not folder:
        place.touch()


def _add_places(folders: Mapping[str, bool]) -> None:
    """Makes the targets that the machine does not have, without writing into its folders. folders: False for a file."""
    for parent, targets in missing(list(folders), lambda path: Path(path).exists()).items():
        try:
            if parent == "/":
                for target in targets:
                    _make_place(target, folder=folders[target])
            else:
                _add_to(parent, {target: folders[target] for target in targets})
        except OSError as error:
            raise CannotStart("mount", f"{targets[0]}: cannot be made in {parent}: {error.strerror}") from error


def _add_to(parent: str, folders: Mapping[str, bool]) -> None:
    """Shows these paths in a folder of the machine."""
    place = os.path.realpath(parent)
    if place.startswith(_KERNEL):
        raise OSError(0, "it is the kernel's")
    Path(_ADDED).mkdir()
    _mount("tmpfs", _ADDED, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for target, folder in folders.items():
        _make_place(f"{_ADDED}/{Path(target).relative_to(parent)}", folder=folder)
    if place in _RUN:
        _bind_entries(place)
    else:
        _overlay(place)


def _bind_entries(place: str) -> None:
    """Adds the entries of a folder, and shows the whole in its place.

    In an overlay nothing can connect to a socket of the folder, and what is mounted in the folder is missing.
    """
    with os.scandir(place) as entries:
        for entry in entries:
            target = f"{_ADDED}/{entry.name}"
            if entry.is_symlink():
                Path(target).symlink_to(Path(entry.path).readlink())
            elif not Path(target).exists():
                # One that ends meanwhile is not missed.
                with contextlib.suppress(OSError):
                    _make_place(target, folder=entry.is_dir())
                    _mount(entry.path, target, None, _BIND | _REC)
    _mount(_ADDED, place, None, _MOVE)
    Path(_ADDED).rmdir()
    _make_read_only(place, 0)


def _overlay(place: str) -> None:
    """Shows what was added over a folder."""
    # A colon separates folders, and a comma options.
    below = place.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    _mount("overlay", place, "overlay", _RDONLY, f"lowerdir={_ADDED}:{below}")
    # The overlay keeps it.
    _call("umount2", _ADDED, _DETACH)
    Path(_ADDED).rmdir()


# -- the process -----------------------------------------------------------------------------------------------------


def _begin(asked: Mapping[str, Any], streams: Sequence[int], answer: Callable[..., None]) -> None:
    """Becomes the shim of a container. Returns only after a trial, which has no command."""
    _make_root(asked["root"], asked["binds"])
    pid = int(Path("/proc/self").readlink().name)
    machine = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    os.setsid()
    answer(pid=pid)
    if not asked["command"]:
        return
    program, *arguments = asked["command"]
    directory = Path(asked["cwd"])
    command = [find_program(program, asked["env"].get("PATH", os.defpath), directory), *arguments]
    os.chdir(directory)
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
        os.dup2(descriptor, number)
    os.dup2(machine, PROC)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # The interpreter ignores them, and a program inherits that.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(asked["shim"][0], [*asked["shim"], *command], asked["env"])
    except OSError as error:
        raise CannotStart("program", f"{program}: {error.strerror}") from error


def _serve(descriptors: Sequence[int], obstacle: OSError | None) -> None:
    """Carries out one request in a process of its own."""
    request, out, err, pipe = descriptors
    child = -1

    def answer(**fields: Any) -> None:
        os.write(pipe, json.dumps(fields).encode() + b"\n")

    try:
        if obstacle is not None:
            raise obstacle
        if child := _fork():
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with os.fdopen(request) as file:
            asked = json.load(file)
        _begin(asked, (out, err), answer)
    except CannotStart as error:
        answer(kind=error.kind, error=str(error))
    except Exception as error:
        answer(kind="isolation", error=f"{error}")
    finally:
        if child == 0:
            os._exit(1)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Serves requests until standard input ends."""
    obstacle: OSError | None = None
    try:
        _enter()
    except OSError as error:
        obstacle = error
    signal.signal(signal.SIGCHLD, _reap)
    # What the garbage collector touches in a child is copied.
    gc.disable()
    gc.freeze()
    with socket.socket(fileno=0) as requests:
        while True:
            word, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
            if not word:
                return
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            _serve(descriptors, obstacle)
            for descriptor in descriptors:
                os.close(descriptor)


if __name__ == "__main__":
    main()
