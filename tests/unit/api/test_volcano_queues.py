"""Queues, PodGroups and Commands: what their models read, and how their definitions are shaped."""

from typing import Any

import pytest

from tests.support.tables import cases, for_each
from workers.api import crds
from workers.api.kinds import COMMAND, POD_GROUP, QUEUE, Kind, Object
from workers.api.volcano import podgroup, queue
from workers.errors import UserError


def version_of(kind: Kind) -> Object:
    (crd,) = (each for each in crds.all_crds() if each["metadata"]["name"] == kind.id)
    (version,) = crd["spec"]["versions"]
    return dict(version)


def body(kind: Kind, **content: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a", "uid": "u"}, **content}


@cases(
    ("queue", QUEUE, {"status": {}}, None, {"spec", "status"}),
    ("pod group: its status is part of the object", POD_GROUP, None, None, {"spec", "status"}),
    ("command: everything beside the metadata", COMMAND, None, None, {"action", "target", "reason", "message"}),
)
def test_a_definition_has_the_shape_that_volcanos_has(
    kind: Kind, subresources: Object | None, required: list[str] | None, fields: set[str]
) -> None:
    version = version_of(kind)
    schema = version["schema"]["openAPIV3Schema"]
    assert version.get("subresources") == subresources
    assert schema.get("required") == required
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata"} | fields


def test_who_does_not_run_volcanos_kinds_leaves_their_definitions_alone() -> None:
    names = {crd["metadata"]["name"] for crd in crds.all_crds(volcano=False)}
    everything = {crd["metadata"]["name"] for crd in crds.all_crds()}
    assert everything - names == {name for name in everything if name.endswith(".volcano.sh")}
    assert {"scaledjobs.keda.sh", "scheduledjobs.penstock.dev"} <= names


def test_a_queue_is_read_with_everything_volcano_knows() -> None:
    spec = {
        "weight": 3,
        "capability": {"cpu": 4, "memory": "8Gi"},
        "guarantee": {"resource": {"cpu": "500m"}},
        "deserved": {"cpu": "2"},
        "parent": "root",
        "priority": 5,
        "reclaimable": False,
        "dequeueStrategy": "fifo",
        "extendClusters": [{"name": "far", "weight": 1, "capacity": {"cpu": 1}}],
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["gpu"]}},
        "type": "x",
        "maxRunningJobs": 2,
    }
    read = queue.parse(body(QUEUE, spec=spec)).spec
    assert read.model_dump(by_alias=True, exclude_none=True, mode="json") == spec


@cases(("no spec", {}), ("an empty one", {"spec": {}}))
def test_what_is_not_said_has_a_default(content: Object) -> None:
    assert queue.parse(body(QUEUE, **content)).spec.weight == 1
    group = podgroup.parse(body(POD_GROUP, **content)).spec
    assert (group.min_member, group.queue, group.min_resources) == (0, "default", None)


@for_each(
    ({"weight": 0}, "spec.weight"),
    ({"weight": 65536}, "spec.weight"),
    ({"priority": -1}, "spec.priority"),
    ({"capability": {"cpu": [1]}}, "spec.capability"),
    ({"maxRunningJobs": -1}, "spec.maxRunningJobs"),
    ({"dequeueStrategy": "lifo"}, "spec.dequeueStrategy"),
)
def test_a_queue_with_a_wrong_field_is_refused_by_its_name(spec: Object, field: str) -> None:
    with pytest.raises(UserError, match=field):
        queue.parse(body(QUEUE, spec=spec))
