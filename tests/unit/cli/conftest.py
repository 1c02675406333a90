"""Fixtures that run command lines of `penstock` on a fake cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.cli import main, options
from deploy.cli.objects import describe
from tests.unit.cli.fake import FakeCluster
from tests.unit.cli.volcano.objects import KINDS
from workers.api.kinds import Ref
from workers.client import rest as cluster_module
from workers.decision.snapshot import Reading, TriggerSample
from workers.settings import Settings


@dataclass(frozen=True)
class Printed:
    """A command line's exit code and output."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the output, their words parted by one space."""
        return [" ".join(line.split()) for line in self.out.splitlines()]


Type = Callable[..., Printed]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings, kubeconfigs or homes of the machine the tests run on."""
    for name in (*map(options.variable, Settings.model_fields), "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster every command connects to."""
    return connected(FakeCluster(), monkeypatch)


def connected(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Makes every command connect to this cluster."""

    async def connect(**_: Any) -> FakeCluster:
        return fake

    monkeypatch.setattr(cluster_module.Cluster, "connect", connect)
    return fake


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker holds this reading of every object."""

    async def reading(_: Ref, _homes: Sequence[Path]) -> Reading:
        return Reading(1, 1_700_000_000_000_000, 4, (TriggerSample("s0-redis-work", "redis", 7, 1, True),))

    monkeypatch.setattr(describe, "reading", reading)


@pytest.fixture
def volcano(cluster: FakeCluster) -> FakeCluster:
    """A cluster with Volcano's kinds."""
    cluster.kinds += KINDS
    return cluster


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs one command line in this process."""

    def run(*arguments: str) -> Printed:
        capsys.readouterr()
        code = main.run(arguments)
        captured = capsys.readouterr()
        return Printed(code, captured.out, captured.err)

    return run
