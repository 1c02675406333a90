"""The status of a Volcano Job: counts, durations, the history of phases, and why pods failed."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import at
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob, vcpod
from workers.api.kinds import Object
from workers.api.volcano.job import Failure
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job import failures, phases, status
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod, observe
from workers.errors import UserError


def pod(
    task_: str, index: int, phase: str = "Running", *, version: int = 0, leaving: bool = False, **more
) -> ObservedPod:
    body = vcpod(f"train-{task_}-{index}", phase, **more)
    metadata = {**body["metadata"], "creationTimestamp": at(-30)}
    if leaving:
        metadata["deletionTimestamp"] = at(0)
    name = metadata["name"]
    return ObservedPod({**body, "metadata": metadata}, name, f"uid-{name}", task_, index, version)


@for_each((0, "0s"), (59.9, "59s"), (60, "1m0s"), (3599, "59m59s"), (3600, "1h0m0s"), (90061, "25h1m1s"), (-5, "0s"))
def test_durations_are_written_as_go_does(seconds, text):
    assert status.duration(timedelta(seconds=seconds)) == text


def test_pods_are_counted_by_task_and_phase():
    tally = phases.tally(
        [
            pod("ps", 0),
            pod("worker", 0, "Succeeded", version=0),
            pod("worker", 1, "Failed", version=1),
            pod("worker", 2, "Unknown", version=1),
            pod("worker", 3, "Succeeded", version=1, leaving=True),
            pod("worker", 4, version=1),
        ],
        1,
        victims={"uid-train-worker-4"},
        made=[("worker", 5), ("late", 0)],
    )
    counts = tally.counts
    assert (counts.pending, counts.running, counts.succeeded, counts.failed) == (2, 1, 1, 1)
    assert (counts.terminating, counts.unknown) == (2, 1)
    assert tally.tasks == {
        "late": {"Pending": 1},
        "ps": {"Running": 1},
        "worker": {"Failed": 1, "Pending": 1, "Succeeded": 1, "Unknown": 1},
    }
    assert tally.present == {"late": "0", "worker": "1,2,5"}, "of this version, and not on their way out"


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])


@given(st.lists(st.tuples(PHASES, st.booleans(), st.integers(0, 2)), max_size=12), st.integers(0, 2))
def test_every_pod_is_counted_once(drawn, version):
    pods = [
        pod("worker", index, phase, leaving=leaving, version=made) for index, (phase, leaving, made) in enumerate(drawn)
    ]
    tally = phases.tally(pods, version)
    counts = tally.counts
    staying = counts.pending + counts.running + counts.succeeded + counts.failed + counts.unknown
    assert staying + counts.terminating == len(pods)
    assert sum(sum(phases.values()) for phases in tally.tasks.values()) == staying
    present = [one.index for one in pods if not one.leaving and one.version >= version]
    assert list(Indexes.parse(tally.present.get("worker"))) == present


def test_the_history_of_phases_is_bounded():
    cluster = VcJobCluster(vcjob(task()))
    for _ in range(status.HISTORY):
        cluster.edit(suspend=True).settle()
        cluster.edit(suspend=False).settle()
    history = [one["status"] for one in cluster.status["conditions"]]
    assert len(history) == status.HISTORY
    assert history[-3:] == ["Aborting", "Aborted", "Pending"]


def ended(code: int, **more: str) -> Object:
    return {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at(-5), **more}}}


@cases(
    (
        "a container",
        {"containerStatuses": [ended(3, reason="Error")]},
        "pod train-worker-0: container main exited with 3 (Error)",
    ),
    (
        "with a message",
        {"containerStatuses": [ended(137, reason="OOMKilled", message="too much")]},
        "pod train-worker-0: container main exited with 137 (OOMKilled, too much)",
    ),
    (
        "the kubelet, before any container",
        {"containerStatuses": [], "reason": "Evicted", "message": "The node was low on resource: memory."},
        "pod train-worker-0 (Evicted, The node was low on resource: memory.)",
    ),
    ("nobody says why", {"containerStatuses": []}, "pod train-worker-0 failed"),
)
def test_why_a_pod_failed(given, told):
    assert failures.summary(failures.of(pod("worker", 0, "Failed", **given))) == told


def seen(job: Object, *pods: ObservedPod, known: tuple[Failure, ...] = ()) -> ObservedJob:
    """A job as it is observed. known: the failures that its status tells."""
    found = observe(VcJobCluster(job).snapshot())
    return replace(found, pods=pods, memory=found.memory.model_copy(update={"failures": known}))


def test_the_newest_failures_are_remembered_each_once():
    known = tuple(Failure(pod=f"old-{number:02}", time=at(-600 + number)) for number in range(failures.REMEMBERED))
    pods = [pod("worker", index, "Failed", containerStatuses=[ended(1)]) for index in range(2)]
    found = failures.remembered(seen(vcjob(task("worker", 2)), *pods, known=known))
    assert [one.pod for one in found[-3:]] == ["old-09", "train-worker-0", "train-worker-1"]
    assert len(found) == failures.REMEMBERED
    assert failures.remembered(seen(vcjob(task("worker", 2)), *pods, known=found)) == found


def again(times_: int, code: int, second: int = -5) -> Object:
    """A container that was started again so often."""
    last = {"exitCode": code, "reason": "Error", "finishedAt": at(second)}
    return {"name": "main", "restartCount": times_, "state": {"running": {}}, "lastState": {"terminated": last}}


@cases(
    ("not too often yet", [pod("worker", 0, containerStatuses=[again(1, 5)])], []),
    ("too often", [pod("worker", 0, containerStatuses=[again(2, 5)])], [5]),
    ("both together", [pod("worker", index, containerStatuses=[again(1, 5 + index)]) for index in range(2)], [5, 6]),
    ("before it began", [pod("worker", 0, initContainerStatuses=[again(2, 7)])], [7]),
    ("its end was none to speak of", [pod("worker", 0, containerStatuses=[again(2, 0)])], []),
    ("on its way out", [pod("worker", 0, containerStatuses=[again(2, 5)], leaving=True)], []),
    ("of an older version", [pod("worker", 0, version=-1, containerStatuses=[again(2, 5)])], []),
)
def test_containers_that_were_started_again_too_often_are_failures(pods, told):
    job = vcjob(task("worker", 2, maxRetry=2))
    found = failures.remembered(seen(job, *pods))
    assert [one.exit_code for one in found] == told
    assert failures.remembered(seen(job, *pods, known=found)) == found


def test_a_task_whose_restarts_have_no_limit_never_fails_by_them():
    job = vcjob(task("worker", 1, maxRetry=-1))
    assert failures.remembered(seen(job, pod("worker", 0, containerStatuses=[again(10**6, 5)]))) == ()


def test_only_the_first_failure_of_a_restarting_pod_is_stored():
    job = vcjob(task("worker", 1, maxRetry=1))
    first = failures.remembered(seen(job, pod("worker", 0, containerStatuses=[again(1, 5, -9)])))
    later = failures.remembered(seen(job, pod("worker", 0, containerStatuses=[again(2, 6, -3)]), known=first))
    assert [one.exit_code for one in first] == [5]
    assert later == first


def test_a_status_that_cannot_be_read_is_named_by_the_path_of_its_field():
    job = vcjob(task("worker", 1))
    job["status"] = {"state": {"phase": 7}}
    with pytest.raises(UserError, match=r"its status cannot be read: state\.phase"):
        observe(VcJobCluster(job).snapshot())
