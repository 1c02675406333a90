"""``penstock describe`` of a ScaledObject: its target and its reading, without children."""

from typing import Any

import pytest

from tests.support.tables import cases
from tests.unit.cli.conftest import Type, connected
from tests.unit.cli.fake import JOB, FakeCluster
from workers.api.kinds import SCALED_OBJECT, Kind
from workers.errors import NotFound

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")


class Scaling(FakeCluster):
    """A cluster whose Deployments can be scaled."""

    def _discovery(self, path: str) -> Any:
        found = super()._discovery(path)
        if path == "/apis/apps/v1":
            found["resources"].append({"name": "deployments/scale", "kind": "Scale", "namespaced": True})
        return found

    async def list(self, kind: Kind, namespace: str = "") -> Any:
        raise NotFound(f"{kind.plural} of {namespace}", status=404)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, reading: None) -> FakeCluster:
    fake = connected(Scaling(), monkeypatch)
    fake.kinds += [SCALED_OBJECT, DEPLOYMENT]
    fake.add(SCALED_OBJECT, "work", spec={"scaleTargetRef": {"name": "pool"}, "triggers": []})
    return fake


def lines(penstock: Type) -> list[str]:
    printed = penstock("describe", "scaledobject", "work")
    assert printed.code == 0
    return printed.lines


@cases(("one", 1, "1 replica"), ("several", 3, "3 replicas"))
def test_its_target_and_its_reading_are_shown(replicas: int, said: str, cluster: FakeCluster, penstock: Type) -> None:
    cluster.objects[DEPLOYMENT.path("default", "pool", "scale")] = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "pool", "resourceVersion": "1"},
        "spec": {"replicas": replicas},
    }
    shown = lines(penstock)
    assert f"Target: Deployment default/pool: {said}" in shown
    assert "s0-redis-work redis 7 1 true" in shown


@pytest.mark.usefixtures("cluster")
def test_a_missing_target_is_reported(penstock: Type) -> None:
    assert "Target: Deployment default/pool: Deployment default/pool does not exist" in lines(penstock)


def test_children_that_the_object_cannot_have_are_not_listed(cluster: FakeCluster, penstock: Type) -> None:
    lines(penstock)
    assert ("GET", JOB.path("default")) not in cluster.calls
