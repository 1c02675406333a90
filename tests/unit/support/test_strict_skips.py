"""`--strict-skips`: a skip that CI should not have fails it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.support.paths import ROOT
from tests.support.tables import cases

STRANGE = "a program of Debian's is not installed: NOT tested"


def session(skipped: list[str], *, strict: bool = True, exitstatus: int = 0) -> Any:
    reports = [SimpleNamespace(longrepr=("file", 1, f"Skipped: {reason}")) for reason in skipped]
    reporter = SimpleNamespace(stats={"skipped": reports})
    plugins = SimpleNamespace(get_plugin=lambda name: reporter if name == "terminalreporter" else None)
    config = SimpleNamespace(pluginmanager=plugins, option=SimpleNamespace(strict_skips=strict))
    return SimpleNamespace(config=config, exitstatus=exitstatus)


def allowed() -> str:
    """A reason that the file allows: a line without the signs of a pattern."""
    lines = (ROOT / "tests" / "allowed-skips.txt").read_text().splitlines()
    return next(line.replace("\\", "") for line in lines if line and not line.startswith("#") and "*" not in line)


@cases(
    ("nothing is skipped", [], True, 0),
    ("a program is missing", [STRANGE], True, 1),
    ("a program is missing, on a machine that asked for no more", [STRANGE], False, 0),
)
def test_a_strange_skip_fails_the_run(skipped: list[str], strict: bool, status: int) -> None:
    run = session(skipped, strict=strict)
    conftest.pytest_sessionfinish(run)
    assert run.exitstatus == status


def test_a_skip_that_the_file_allows_does_not() -> None:
    run = session([allowed()])
    conftest.pytest_sessionfinish(run)
    assert run.exitstatus == pytest.ExitCode.OK
