"""The wheel installed as users install it, with what it requires, and typed in any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.release import tools
from penstock import __version__
from tests.packaging.image.container import PATIENCE
from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(PATIENCE)


def test_pipx_installs_a_command_that_works_in_any_folder(wheel: Path, tmp_path: Path) -> None:
    # pipx finds uv beside itself, with which it resolves and installs in a twentieth of pip's time.
    pipx = Path(tools.environment(ROOT).program("pipx"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    variables = kept | {
        "PATH": f"{pipx.parent}:{os.environ['PATH']}",
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
    }
    words = (str(pipx), "install", "--backend", "uv", "--python", sys.executable, str(wheel))
    done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "any folder"
    folder.mkdir()
    (folder / "workers.py").write_text("raise SystemExit('imported the current folder')\n")
    said = subprocess.run(
        (tmp_path / "bin" / "penstock", "version"), cwd=folder, env=kept, capture_output=True, text=True
    )
    assert said.stdout.splitlines()[0] == f"penstock {__version__}", said.stderr
