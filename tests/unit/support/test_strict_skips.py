"""`--strict-skips`: a test that CI should not skip fails."""

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.tables import cases

STRANGE = "a program of Debian's is not installed: NOT tested"


def allowed() -> str:
    """A reason that the file allows: a line without the signs of a pattern."""
    lines = (ROOT / "tests" / "allowed-skips.txt").read_text().splitlines()
    return next(line.replace("\\", "") for line in lines if line and not line.startswith("#") and "*" not in line)


@cases(
    ("a program is missing", STRANGE, ["--strict-skips"], "1 failed"),
    ("a program is missing, on a machine that asked for no more", STRANGE, [], "1 skipped"),
    ("a reason that the file allows", allowed(), ["--strict-skips"], "1 skipped"),
)
def test_a_skipped_test_fails_where_it_should_run(reason: str, options: list[str], told: str, tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    place = ["--rootdir", str(tmp_path), "-o", f"cache_dir={tmp_path}"]
    run = subprocess.run([*command, *place, *options, str(test)], cwd=ROOT, capture_output=True, text=True)
    assert told in run.stdout.splitlines()[-1], run.stdout
    assert run.returncode == (told == "1 failed")
