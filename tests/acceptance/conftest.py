"""One embedded Penstock for all acceptance tests that only use it: eight processes take their time to start.

It ends with the last of them, and costs the tests that come after nothing.
"""

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.terminal import Terminal, running


@pytest.fixture(scope="package")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    return Terminal.of(tmp_path_factory.mktemp("command"))


@pytest.fixture(scope="package")
def up(terminal: Terminal) -> Iterator[subprocess.Popen[bytes]]:
    """Everything, embedded."""
    with running(terminal, terminal.folder / "up.log", "--polling", "5") as process:
        yield process
