"""The place of a demo."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deploy.cli import options
from deploy.demo.stage import DemoStage
from deploy.local import up
from deploy.local.home import Home
from workers.client.rest import Cluster
from workers.errors import Unavailable


async def test_the_command_to_look_around_is_one_line_in_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any, started: Any, **__: Any) -> None:
        await started(up.RunningPart(Home(tmp_path), {"broker": 1}, tmp_path / "kubeconfig", "redis://h", ""))

    async def connect(**_: Any) -> None:
        raise Unavailable("enough was seen")

    async def act(*_: Any) -> None:
        pytest.fail("there is no cluster")

    monkeypatch.setattr(up, "run", run)
    monkeypatch.setattr(Cluster, "connect", connect)
    printed = io.StringIO()
    stage = DemoStage(Console(file=printed, width=20), tmp_path, "redis://h", None)
    with pytest.raises(Unavailable):
        await stage.run(options.load({}), "scaledjobs,jobs,pods", act)
    assert f"kubectl --kubeconfig {tmp_path}/kubeconfig get scaledjobs,jobs,pods\n" in printed.getvalue()
