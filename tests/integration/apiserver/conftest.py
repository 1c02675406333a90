"""What the embedded server answers is tested against a real kube-apiserver too, when KUBEBUILDER_ASSETS names one."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.apiserver.client import Api
from tests.support import kube
from tests.support.embedded import Embedded, embedded_apiserver

_numbers = itertools.count(1)
REAL = pytest.param("real", marks=pytest.mark.real_apiserver)


@pytest.fixture(scope="package")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """One embedded API server for all tests that do not stop it."""
    with embedded_apiserver(tmp_path_factory.mktemp("embedded")) as server:
        yield server


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a real control plane with its controllers."""
    with kube.control_plane(kube.assets(), tmp_path_factory.mktemp("real"), controllers=True) as plane:
        yield plane.kubeconfig


def _fresh(kubeconfig: Path) -> Api:
    api = Api(kubeconfig, f"test-{next(_numbers)}")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": api.namespace}}
    api.create("/api/v1/namespaces", namespace)
    return api


@pytest.fixture(params=["embedded", REAL])
def api(request: pytest.FixtureRequest) -> Api:
    """Both servers, with a fresh namespace."""
    if request.param == "real":
        return _fresh(request.getfixturevalue("real"))
    return _fresh(request.getfixturevalue("embedded").kubeconfig)


@pytest.fixture
def ours(embedded: Embedded) -> Api:
    """The embedded server alone, with a fresh namespace."""
    return _fresh(embedded.kubeconfig)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Embedded]:
    """An embedded server of the test's own, to be stopped and started."""
    with embedded_apiserver(tmp_path / "own") as server:
        yield server


Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(embedded: Embedded, ours: Api, tmp_path: Path) -> Kubectl:
    """Runs kubectl in the test's namespace and answers what it prints. Its caches are the test's own."""
    environment = {**os.environ, "KUBECONFIG": str(embedded.kubeconfig), "HOME": str(tmp_path)}

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            ["kubectl", "-n", ours.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
        )
        assert bool(done.returncode) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
