"""The programs that make and judge a release, in an environment of their own.

``python -m deploy.release.tools`` makes it. `release.lock` has them with hashes (`make lock`). They are never installed
with Penstock, or beside it.
"""

import fcntl
import subprocess
import sys
import venv
from pathlib import Path


class Tools:
    """The programs of one environment."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"

    def program(self, name: str) -> str:
        """Returns the path of a program."""
        return str(self._bin / name)

    @property
    def python(self) -> str:
        """The environment's Python, which has pip and setuptools."""
        return self.program("python")


def environment(root: Path) -> Tools:
    """Returns the tools of a checkout, in its folder build/release; installs them when release.lock has changed.

    Raises subprocess.CalledProcessError if they cannot be installed.
    """
    lock, folder = root / "release.lock", root / "build" / "release"
    folder.parent.mkdir(exist_ok=True)
    wanted = f"{sys.version}\n{lock.read_text(encoding='utf-8')}"
    with (folder.parent / "release.locked").open("w") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        stamp = folder / "installed"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            venv.create(folder, clear=True, with_pip=True, symlinks=True)
            _install(str(folder / "bin" / "python"), "--require-hashes", "--requirement", str(lock))
            stamp.write_text(wanted, encoding="utf-8")
    return Tools(folder)


def _install(python: str, *wanted: str) -> None:
    """Installs with uv, where it stands beside this process's Python, in a fifth of pip's time; else, or if uv fails
    since it does not read pip's settings, with pip.
    """
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists() or subprocess.run((uv, "--quiet", "pip", "install", "--python", python, *wanted)).returncode:
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        subprocess.run((*pip, *wanted), check=True)


if __name__ == "__main__":
    print(environment(Path.cwd()).python)
