"""The wheel, built once from a copy of the checkout, and installed among namesakes of everything in it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging import dependencies
from tests.packaging.image import image_build
from tests.packaging.image.container import Image
from tests.support.paths import ROOT

#: Seconds that a build, an installation or a command may take on a busy machine.
PATIENCE = 300.0
#: What a build reads: anything else in the checkout must make no difference.
SOURCES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
FOLDERS = ("penstock", "scheduler", "workers", "scalers", "deploy")


@dataclass(frozen=True)
class Installed:
    """python: of an environment with the wheel. site: its site-packages. folder: where namesakes of everything are."""

    python: Path
    site: Path
    folder: Path

    @property
    def bin(self) -> Path:
        return self.python.parent

    def environment(self, **more: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PENSTOCK_", "PYTHON", "KUBE", "CELERY", "VIRTUAL_ENV", "COVERAGE"))
        }
        # Its modules are links into the checkout's environment: pods of their own /tmp miss them if that is below /tmp.
        if Path("/tmp") in Path(sysconfig.get_path("purelib")).resolve().parents:
            kept["PENSTOCK_ISOLATION"] = "none"
        return {**kept, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", **more}

    def type(self, *words: str, code: int = 0, variables: Mapping[str, str] | None = None) -> str:
        """One command line in the folder of namesakes, which must end with this code; what it printed, errors last."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment(**(variables or {})),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def install(self, wheel: Path) -> None:
        """Installs a wheel without asking for anything else."""
        # The environment has no pip of its own.
        _pip("--python", str(self.python), "install", "--no-deps", str(wheel))


def build(source: Path, target: Path) -> Path:
    """The wheel of the project in a folder."""
    _pip("wheel", "--no-deps", "-w", str(target), str(source), cwd=source)
    [built] = target.glob("*.whl")
    return built


def _pip(*words: str, cwd: Path | None = None) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    done = subprocess.run([*pip, *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make wheel` builds it."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    return build(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def files(wheel: Path) -> set[str]:
    """The names of the wheel's files."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own with what it requires, and among namesakes."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = home / "lib" / version / "site-packages"
    required = home / "required"
    required.mkdir()
    _link(required, dependencies.closure(dependencies.declared()))
    (site / "required.pth").write_text(f"{required}\n")
    folder = home / "current"
    folder.mkdir()
    one = Installed(python, site, folder)
    one.install(wheel)
    _script(one.bin / "celery", python, "celery.__main__")
    for name in ("scheduler", "workers", "scalers", "deploy"):
        _namesake(site / name, f"installed {name}")
        _namesake(folder / name, f"the current folder's {name}")
    for name in ("celery", "redis", "click", "kombu", "app", "errors", "logging", "json", "celeryconfig"):
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported the current folder: {name}')\n")
    return one


def _link(folder: Path, names: set[str]) -> None:
    """Makes exactly these distributions of this environment importable from a folder."""
    places = {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    for name in names:
        distribution = metadata.distribution(name)
        tops = {Path(str(file)).parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            for place in places:
                if (place / top).exists() and not (folder / top).exists():
                    (folder / top).symlink_to(place / top)


def _script(path: Path, python: Path, module: str) -> None:
    """A command as an installer makes it."""
    path.write_text(f"#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
    path.chmod(0o755)


def _namesake(package: Path, text: str) -> None:
    package.mkdir()
    (package / "__init__.py").write_text(f"raise SystemExit({f'imported {text}'!r})\n")


@pytest.fixture(scope="session")
def image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What the Dockerfile puts into the image."""
    return image_build.made(wheel, tmp_path_factory.mktemp("image"))
