"""A gang that waits for room shows who holds it."""

from typing import Any

import pytest

from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import POD, FakeCluster
from tests.unit.cli.volcano.objects import words
from workers.api.kinds import POD_GROUP

SHORT = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "1 of 4 cpu left"}


def pod(cluster: FakeCluster, name: str, cpu: str, *, group: str = "", phase: str = "Running", **more: Any) -> None:
    metadata = {"annotations": {"scheduling.k8s.io/group-name": group}} if group else {}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"containers": [container], "nodeName": "local", **more}
    cluster.add(POD, name, metadata=metadata, spec=spec, status={"phase": phase})


@pytest.fixture
def held(volcano: FakeCluster) -> FakeCluster:
    cluster = volcano
    pod(cluster, "a-0", "1", group="a")
    pod(cluster, "a-1", "500m", group="a")
    pod(cluster, "alone", "2")
    pod(cluster, "small", "100m")
    pod(cluster, "over", "8", phase="Succeeded")
    pod(cluster, "nowhere", "8", phase="Pending", nodeName="")
    return cluster


def waiting(cluster: FakeCluster, condition: dict[str, str], **spec: Any) -> None:
    cluster.add(POD_GROUP, "b", spec=spec, status={"phase": "Pending", "conditions": [condition]})


def test_the_holders_are_shown_the_largest_first(held: FakeCluster, penstock: Type) -> None:
    waiting(held, SHORT, minResources={"cpu": "3", "pods": "2"})
    lines = words(penstock("describe", "podgroup", "b").out)
    start = lines.index(["Held:"])
    assert lines[start + 1 : start + 5] == [
        ["HELD", "BY", "PODS", "CPU"],
        ["default", "PodGroup/a", "2", "1500m"],
        ["default", "Pod/alone", "1", "2"],
        ["default", "Pod/small", "1", "100m"],
    ]


def test_a_gang_that_waits_for_something_else_shows_none(held: FakeCluster, penstock: Type) -> None:
    waiting(held, {**SHORT, "reason": "QueueNotOpen"}, minResources={"cpu": "3"})
    assert "Held" not in penstock("describe", "podgroup", "b").out
