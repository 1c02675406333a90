"""What decisions measure, under the names that dashboards ask for."""

from itertools import pairwise

import pytest
from prometheus_client import REGISTRY

from tests.support.tables import for_each
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.metrics import process

LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@for_each(
    ("jobflows_succeeded", "volcano_jobflow_succeed_phase_count"),
    ("jobflows_failed", "volcano_jobflow_failed_phase_count"),
)
def test_flows_are_counted_under_exactly_volcanos_name(metric, name):
    before = value(name, jobflow_namespace="default")
    process.measure(metric, 1.0, ("default",))
    assert value(name, jobflow_namespace="default") == before + 1
    with pytest.raises(ValueError, match=name):
        process.measure(metric, 1.0)


def test_the_buckets_of_a_pods_latency_are_volcanos():
    (family,) = process.MEASURES["vcjob_pod_latency"].collect()
    bounds = [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")][:-1]
    assert (len(bounds), bounds[0], bounds[-1]) == (30, 50, 60_000)
    assert {round(above / below, 2) for below, above in pairwise(bounds)} == {1.28}


def test_every_pod_that_a_job_gets_is_measured_once():
    cluster = VcJobCluster(vcjob(task("worker", 3))).settle()
    (measured,) = cluster.measured
    assert (measured.metric, measured.times) == ("vcjob_pod_latency", 3)
    assert measured.value == 60_000
    before, seconds = value(f"{LATENCY}_count"), value(f"{LATENCY}_sum")
    process.measure(measured.metric, 70.0, (), measured.times)
    assert value(f"{LATENCY}_count") == before + 3
    assert value(f"{LATENCY}_sum") == seconds + 210


def test_pods_that_could_not_be_made_are_measured_when_they_can():
    cluster = VcJobCluster(vcjob(task("worker", 3)))
    cluster.refused["train-worker-0"] = "quota exceeded"
    cluster.settle()
    assert cluster.measured == []
    cluster.refused.clear()
    cluster.wait(1)
    assert [(each.value, each.times) for each in cluster.measured] == [(61_000, 3)]
