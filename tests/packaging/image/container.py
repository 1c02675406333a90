"""A container without a builder: the image's files on a read-only root of this machine's Python, one numeric user.

The root holds what the image needs and nothing else of this machine: Python, the C library's folder, the environment,
devices, `/proc` and `/tmp`. There is no shell and no program but Python. As a script it makes that root in the
namespaces that it was started in, and becomes the command.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

#: Namespaces for the command: it is process 1 there, as in a container, so that signals it does not handle do nothing.
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
PATIENCE = 600.0


@dataclass(frozen=True)
class Image:
    """environment: the folder that the image has as /opt/penstock. scratch: an empty folder, for roots."""

    environment: Path
    scratch: Path
    variables: Mapping[str, str]
    workdir: str
    user: int
    entrypoint: tuple[str, ...]
    _count: list[int] = field(default_factory=lambda: [0])

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """A command of a container that ends by itself."""
        return subprocess.run(
            self._command(words, **options), env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip

    @contextlib.contextmanager
    def started(self, *words: str, output: IO[str], **options: Any) -> Iterator["Running"]:
        """A container that goes on; killed with the block if it has not ended by itself."""
        with subprocess.Popen(
            self._command(words, **options), env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                yield Running(process)
            finally:
                if process.poll() is None:
                    process.kill()

    def _command(
        self,
        words: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        files: Mapping[str, Path] = MappingProxyType({}),
        tmp: Path | None = None,
    ) -> tuple[str, ...]:
        """files: by their paths in the container, read-only. tmp: the folder that is its /tmp; a new one without."""
        self._count[0] += 1
        root = self.scratch / f"root-{self._count[0]}"
        root.mkdir()
        if tmp is None:
            tmp = self.scratch / f"tmp-{self._count[0]}"
            tmp.mkdir()
        tmp.chmod(0o1777)
        binds = {**_python(), "/opt/penstock": str(self.environment)}
        asked = {
            "root": str(root),
            "binds": binds | {at: str(path) for at, path in files.items()},
            "tmp": str(tmp),
            "home": self.variables["HOME"],
            "workdir": self.workdir,
            "user": self.user,
            "variables": {**self.variables, **(variables or {})},
            "command": [*self.entrypoint, *words],
        }  # fmt: skip
        return (*_UNSHARE, sys.executable, __file__, json.dumps(asked))


@dataclass(frozen=True)
class Running:
    """A container that runs. process: its parent in this machine's namespaces."""

    process: subprocess.Popen[bytes]

    def stop(self, patience: float) -> int:
        """Sends SIGTERM to the container's first process, as `docker stop` does; its exit code."""
        [first] = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        return self.process.wait(patience)


def _python() -> dict[str, str]:
    """What the interpreter needs of this machine, each at its own path."""
    prefix, program = Path(sys.base_prefix), Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    wanted = [
        program,
        prefix / "bin" / "python3",
        prefix / "bin" / version,
        prefix / "lib" / version,
        *(prefix / "lib").glob("libpython*.so*"),
        Path("/usr/lib") / multiarch,
        Path("/usr/lib64"),
    ]
    return {str(path): str(path.resolve()) for path in dict.fromkeys(wanted) if path.exists()}


def _mount(*words: str) -> None:
    subprocess.run(("mount", *words), check=True)


def _bind(source: str, target: Path, *, writable: bool = False) -> None:
    if target.exists():
        # Two names of one file, of which a folder that is there already holds one.
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if Path(source).is_dir():
        target.mkdir()
    else:
        target.touch()
    _mount("--bind", source, str(target))
    if not writable:
        _mount("-o", "remount,bind,ro", str(target))


def main(asked: Mapping[str, Any]) -> None:
    """Makes the root, enters it, gives up every right and becomes the command."""
    os.umask(0o022)
    root = Path(asked["root"])
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=0755", "root", str(root))
    for link, place in {"lib": "usr/lib", "lib64": "usr/lib64"}.items():
        (root / link).symlink_to(place)
    for path, source in asked["binds"].items():
        _bind(source, root / path.lstrip("/"))
    for device in ("null", "zero", "random", "urandom"):
        _bind(f"/dev/{device}", root / "dev" / device, writable=True)
    (root / "proc").mkdir()
    _mount("-t", "proc", "proc", str(root / "proc"))
    home = root / asked["home"].lstrip("/")
    home.mkdir(parents=True)
    os.chown(home, asked["user"], asked["user"])
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    _bind(asked["tmp"], root / "tmp", writable=True)
    _mount("-o", "remount,ro", str(root))
    os.chroot(root)
    os.chdir(asked["workdir"])
    os.setgroups([])
    os.setgid(asked["user"])
    os.setuid(asked["user"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    os.execvp(asked["command"][0], asked["command"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
