"""Clusters to test against: the embedded one always, a real one when there is one."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import kube
from tests.support.embedded import embedded_apiserver
from tests.support.house import House, Houses
from tests.support.sites import Site, running_site
from workers.api.kinds import NAMESPACE
from workers.client.rest import Cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def embedded_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The embedded cluster's kubeconfig."""
    with embedded_apiserver(tmp_path_factory.mktemp("embedded")) as server:
        yield server.kubeconfig


@pytest.fixture(scope="package")
def real_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real control plane's kubeconfig; skips, loudly, when there are no binaries."""
    with kube.control_plane(kube.assets(), tmp_path_factory.mktemp("real")) as plane:
        yield plane.kubeconfig


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
def cluster_config(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of each cluster in turn."""
    config: Path = request.getfixturevalue(f"{request.param}_config")
    return config


@pytest.fixture
async def cluster(cluster_config: Path) -> AsyncIterator[Cluster]:
    """A client of each cluster in turn."""
    async with await Cluster.connect(kubeconfig=cluster_config) as cluster:
        yield cluster


@pytest.fixture
async def namespace(cluster: Cluster) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture(scope="package")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Houses]:
    """What runs on embedded clusters for modules that come one after the other and want the same settings."""
    with Houses(lambda: tmp_path_factory.mktemp("house")) as houses:
        yield houses


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, houses: Houses) -> Iterator[House]:
    """Everything at work on the embedded cluster, with the settings that the module says in HOUSE.

    The cluster holds nothing of other modules, and what this one leaves there is deleted.
    """
    house = houses.with_settings(request.module.HOUSE)
    yield house
    houses.clear()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A broker and a cluster of the test's own, on which it starts processes of ours."""
    async with running_site(tmp_path) as site:
        yield site
