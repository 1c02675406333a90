"""Every test runs against the embedded API server, and against a real one when KUBEBUILDER_ASSETS names it."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local.kubelet.containers.isolation import Isolation
from tests.integration.kubelet.lab import Lab
from tests.support import kube
from tests.support.embedded import embedded_apiserver
from workers.api.kinds import POD, ref_of
from workers.client.rest import Cluster
from workers.errors import NotFound


@dataclass(frozen=True)
class Server:
    kubeconfig: Path
    logs: Path
    name: str


@pytest.fixture(scope="package", params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An API server."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with embedded_apiserver(folder) as embedded:
            yield Server(embedded.kubeconfig, embedded.logs, "embedded")
        return
    with kube.control_plane(kube.assets(), folder) as plane:
        yield Server(plane.kubeconfig, folder / "logs", "real")


@pytest.fixture
async def bench(server: Server, tmp_path: Path) -> AsyncIterator[Lab]:
    """A cluster without pods and a kubelet that is not started yet."""
    async with await Cluster.connect(kubeconfig=server.kubeconfig) as cluster:
        lab = Lab(cluster, server.kubeconfig, tmp_path, server.logs)
        yield lab
        pods, _ = await cluster.list(POD)
        for pod in pods:
            # The kubelet still works: it may have brought a deletion to its end since.
            with suppress(NotFound):
                await cluster.delete(ref_of(POD, pod), grace=0)
        lab.stop(signal.SIGTERM)


@pytest.fixture
def lab(bench: Lab) -> Lab:
    """The same with a running kubelet."""
    bench.start()
    return bench


@pytest.fixture(scope="module")
def _allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = Isolation("auto", tmp_path_factory.mktemp("isolation"))
    found.close()
    if found.obstacle is not None:
        pytest.skip(found.obstacle)
