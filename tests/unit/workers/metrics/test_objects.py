"""What Prometheus is shown of all objects as they are, and when it is shown no more."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import redis.asyncio as redis_async
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from scheduler.keys import Keys
from tests.support.clusters import FakeCluster
from tests.support.conditions import eventually
from workers.api import kinds
from workers.api.kinds import QUEUE, SCALED_JOB, SCALED_OBJECT, VC_JOB, Kind, Object, Ref
from workers.cache.reflector import Pace, Reflector
from workers.cache.store import Store
from workers.metrics.objects import ObjectMetrics


def body(name: str = "work", namespace: str = "default", **more: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"metadata": {key: value for key, value in metadata.items() if value}, **more}


def triggers(*types: str) -> Object:
    return {"triggers": [{"type": type_} for type_ in types]}


def vcjob(phase: str, name: str = "train", **spec: Any) -> Object:
    return body(name, spec=spec, status={"state": {"phase": phase}})


def shown(metrics: ObjectMetrics) -> dict[tuple[str, ...], float]:
    """By name and labels' values."""
    samples = [sample for family in metrics.collect() for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def metrics() -> ObjectMetrics:
    return ObjectMetrics(CollectorRegistry())


PAUSED = "keda_scaled_object_paused", "default", "work"
SAMPLES: list[tuple[str, Kind, Object, dict[tuple[str, ...], float]]] = [
    (
        "a ScaledJob and its triggers",
        SCALED_JOB,
        body(spec=triggers("redis", "cron", "redis")),
        {
            ("keda_resource_registered_total", "scaled_job", "default"): 1,
            ("keda_trigger_registered_total", "redis"): 2,
            ("keda_trigger_registered_total", "cron"): 1,
        },
    ),
    (
        "a ScaledObject",
        SCALED_OBJECT,
        body(spec=triggers("cpu")),
        {
            ("keda_resource_registered_total", "scaled_object", "default"): 1,
            ("keda_trigger_registered_total", "cpu"): 1,
            PAUSED: 0,
        },
    ),
    *(
        (
            f"a ScaledObject with the annotation {name}: {text}",
            SCALED_OBJECT,
            body(metadata={"annotations": {f"autoscaling.keda.sh/{name}": text}}),
            {("keda_resource_registered_total", "scaled_object", "default"): 1, PAUSED: paused},
        )
        for name, text, paused in (("paused", "true", 1), ("paused", "false", 0), ("paused-replicas", "0", 1))
    ),
    (
        "a ScaledJob that is not ready",
        SCALED_JOB,
        body(spec={}, status={"conditions": [{"type": "Ready", "status": "False"}]}),
        {
            ("keda_resource_registered_total", "scaled_job", "default"): 1,
            ("penstock_not_ready", "ScaledJob", "default", "work"): 1,
        },
    ),
    (
        "a ScaledJob of which nothing is known",
        SCALED_JOB,
        body(spec={}, status={"conditions": [{"type": "Ready", "status": "Unknown"}]}),
        {("keda_resource_registered_total", "scaled_job", "default"): 1},
    ),
    (
        "an EventJob and its events",
        kinds.EVENT_JOB,
        body("orders", status={"events": {"waiting": 3, "parked": 1, "done": 70, "running": None}}),
        {
            ("penstock_eventjob_events", "default", "orders", state): number
            for state, number in {"waiting": 3, "delayed": 0, "running": 0, "retrying": 0, "parked": 1}.items()
        },
    ),
    ("an EventJob that nobody measured yet", kinds.EVENT_JOB, body("orders", status={}), {}),
    (
        "an authentication",
        kinds.TRIGGER_AUTHENTICATION,
        body(),
        {("keda_resource_registered_total", "trigger_authentication", "default"): 1},
    ),
    (
        "one without a namespace",
        kinds.CLUSTER_TRIGGER_AUTHENTICATION,
        body(namespace=""),
        {("keda_resource_registered_total", "cluster_trigger_authentication", "default"): 1},
    ),
    (
        "a Job that is complete",
        VC_JOB,
        vcjob("Completed", queue="research"),
        {("volcano_job_completed_phase_count", "default/train", "research"): 1},
    ),
    (
        "a Job that failed, and names no queue",
        VC_JOB,
        vcjob("Failed"),
        {("volcano_job_failed_phase_count", "default/train", "default"): 1},
    ),
    *((f"a Job that is {phase}", VC_JOB, vcjob(phase), {}) for phase in ("Running", "Aborted", "Terminated", "")),
    ("a new Job", VC_JOB, body(spec={}), {}),
    ("a new Queue", QUEUE, body(namespace=""), {}),
    (
        "a Queue",
        QUEUE,
        body("research", "", status={"pending": 2, "inqueue": 1, "running": 3, "completed": 4, "state": "Open"}),
        {
            ("volcano_queue_pod_group_pending_count", "research"): 2,
            ("volcano_queue_pod_group_inqueue_count", "research"): 1,
            ("volcano_queue_pod_group_running_count", "research"): 3,
            ("volcano_queue_pod_group_unknown_count", "research"): 0,
            ("volcano_queue_pod_group_completed_count", "research"): 4,
        },
    ),
    ("triggers that are none", SCALED_JOB, body(spec={"triggers": "redis"}), {}),
    ("a status that is none", QUEUE, body(status={"running": "many"}), {}),
]


@pytest.mark.parametrize(("kind", "object_", "expected"), [row[1:] for row in SAMPLES], ids=[row[0] for row in SAMPLES])
def test_what_an_object_says(
    metrics: ObjectMetrics, kind: Kind, object_: Object, expected: dict[tuple[str, ...], float]
) -> None:
    object_ = {"kind": kind.kind, **object_}
    table = metrics.table(kind)
    assert table
    table.update(object_, deleted=False)
    assert shown(metrics) == expected
    table.update(object_, deleted=True)
    assert shown(metrics) == {}


def test_kinds_that_say_nothing_are_not_listened_to(metrics: ObjectMetrics) -> None:
    assert metrics.table(kinds.POD) is None


def test_what_several_objects_say_is_added_up_and_can_be_read_by_prometheus() -> None:
    registry = CollectorRegistry()
    metrics = ObjectMetrics(registry)
    for kind, names in ((SCALED_JOB, "abc"), (SCALED_OBJECT, "de")):
        table = metrics.table(kind)
        assert table
        for name in names:
            table.update(body(name, spec=triggers("redis")), deleted=False)
    text = openmetrics.generate_latest(registry).decode()
    read = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert read["keda_trigger_registered_total"].value == 5
    assert registry.get_sample_value(
        "keda_resource_registered_total", {"type": "scaled_job", "namespace": "default"}
    ) == len("abc")


class Listing:
    """A roll that knows three jobs, with a listing under way."""

    def __init__(self, metrics: ObjectMetrics) -> None:
        table = metrics.table(VC_JOB)
        assert table
        self.metrics, self.table = metrics, table
        for name in "abc":
            table.update(vcjob("Completed", name), deleted=False)
        table.begin()

    def names(self) -> str:
        return "".join(sorted(name.partition("/")[2] for _, name, _ in shown(self.metrics)))


def test_what_is_not_listed_any_more_has_gone(metrics: ObjectMetrics) -> None:
    listing = Listing(metrics)
    listing.table.listed([vcjob("Completed", "a")])
    listing.table.listed([vcjob("Completed", "d"), vcjob("Running", "c")])
    assert listing.names() == "abd"
    listing.table.finish()
    assert listing.names() == "ad"


def test_the_watch_knows_more_than_a_listing_that_began_before(metrics: ObjectMetrics) -> None:
    listing = Listing(metrics)
    listing.table.update(vcjob("Completed", "a"), deleted=True)
    listing.table.update(vcjob("Completed", "new"), deleted=False)
    listing.table.listed([vcjob("Completed", name) for name in "abc"])
    listing.table.finish()
    assert listing.names() == "bcnew"
    # And no more than the next one.
    listing.table.begin()
    listing.table.listed([vcjob("Completed", "a")])
    listing.table.finish()
    assert listing.names() == "a"


async def test_a_reflector_fills_the_table_as_long_as_it_leads(
    metrics: ObjectMetrics, fake_redis: redis_async.Redis
) -> None:
    cluster, store = FakeCluster(), Store(fake_redis, Keys("test"), {})
    informer = Reflector(cluster, store, VC_JOB, _notify_nobody, pace=Pace(beat=0.01), table=metrics.table(VC_JOB))
    old, new = (("volcano_job_completed_phase_count", f"default/{name}", "default") for name in ("old", "new"))
    cluster.put(VC_JOB, _whole(vcjob("Completed", "old")))
    task = asyncio.create_task(informer.run(1))
    try:
        await eventually(lambda: shown(metrics) == {old: 1})
        cluster.put(VC_JOB, _whole(vcjob("Completed", "new")))
        await eventually(lambda: shown(metrics) == {old: 1, new: 1})
        cluster.remove(Ref(VC_JOB, "default", "old"))
        await eventually(lambda: shown(metrics) == {new: 1})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert shown(metrics) == {}


def _whole(manifest: Object) -> Object:
    metadata = {**manifest["metadata"], "uid": f"uid-{manifest['metadata']['name']}"}
    return {"apiVersion": VC_JOB.api_version, "kind": VC_JOB.kind, **manifest, "metadata": metadata}


async def _notify_nobody(_notifications: Mapping[str, int]) -> None:
    pass
