"""Gangs on the embedded cluster: no pod starts before its whole gang may, and two gangs never start in part."""

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from tests.integration.controllers.volcano_objects import (
    cluster_fixture,
    create,
    is_in,
    manifest,
    open_queue,
    phase_of,
    reaches,
    reports,
    status,
    task,
    unschedulable,
)
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers.api.kinds import NODE, POD, POD_GROUP, QUEUE, RESOURCE_QUOTA, VC_JOB, Object, Ref, ref_of
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.errors import ClusterError

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "gang_patience": "3", "gang_reclaim": "true"}


cluster = cluster_fixture(VC_JOB, POD_GROUP, POD)


async def _group(cluster: Cluster, name: str, *, least: int, **spec: object) -> Ref:
    return await create(cluster, POD_GROUP, {"minMember": least, "queue": "default", **spec}, name)


async def _pod(cluster: Cluster, name: str, group: str, *, seconds: float = 0.5, **spec: object) -> None:
    """Creates a gated pod of a group."""
    gated = {"schedulingGates": [{"name": GANG_GATE}], **spec}
    requests = {"resources": {"requests": {"cpu": "100m"}}}
    made = task("", f"exec sleep {seconds}", container=requests, pod=gated)["template"]["spec"]
    await create(cluster, POD, made, name, annotations={GROUP_NAME: group})


async def _made(cluster: Cluster, name: str, *, pods: int, seconds: float = 0.5, **spec: object) -> None:
    """Creates a group and its pods, all of which are its gang."""
    await _group(cluster, name, least=pods, **spec)
    for index in range(pods):
        await _pod(cluster, f"{name}-{index}", name, seconds=seconds)


def _ref(name: str) -> Ref:
    return Ref(POD_GROUP, "default", name)


def _alive(pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]


async def _pods(cluster: Cluster, name: str) -> list[Object]:
    found, _ = await cluster.list(POD, "default")
    return [pod for pod in found if (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) == name]


def _one_after_the_other(*gangs: list[Object]) -> bool:
    """Returns True if each gang's processes had ended before the next one's started (in whole seconds)."""
    ended = [
        [one["state"]["terminated"] for pod in pods for one in pod["status"]["containerStatuses"]] for pods in gangs
    ]
    times = sorted((min(one["startedAt"] for one in gang), max(one["finishedAt"] for one in gang)) for gang in ended)
    return all(before[1] <= after[0] for before, after in pairwise(times))


async def _are(cluster: Cluster, phases: dict[str, str]) -> bool:
    return all([await is_in(cluster, _ref(name), phase) for name, phase in phases.items()])


async def test_two_gangs_that_fit_one_at_a_time_run_one_after_the_other(cluster: Cluster) -> None:
    # The node runs four pods at once.
    together: set[frozenset[str]] = set()

    async def both_are_done() -> bool:
        found, _ = await cluster.list(POD, "default")
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        together.add(frozenset(pod["metadata"]["annotations"][GROUP_NAME] for pod in _alive(placed)))
        return await _are(cluster, {"first": "Completed", "second": "Completed"})

    for name in ("first", "second"):
        await _made(cluster, name, pods=4, seconds=1)
    await eventually(both_are_done, within=60)
    assert all(len(names) <= 1 for names in together), "pods of both had places at the same time"
    assert _one_after_the_other(await _pods(cluster, "first"), await _pods(cluster, "second"))


async def test_what_waits_says_why_and_starts_when_it_fits(cluster: Cluster) -> None:
    await _made(cluster, "busy", pods=3, seconds=600)
    await reaches(cluster, _ref("busy"), "Running")
    await _made(cluster, "late", pods=2, seconds=0.1)
    await _waits(cluster, "late", "the cluster has 1 of 4 pods left, the gang needs 2")
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "late"))
    for pod in await _pods(cluster, "busy"):
        await cluster.delete(Ref(POD, "default", pod["metadata"]["name"]), grace=0)
    await reaches(cluster, _ref("late"), "Completed")


async def test_a_gang_waits_until_all_its_pods_are_there(cluster: Cluster) -> None:
    await _group(cluster, "slow", least=2)
    await _pod(cluster, "slow-0", "slow")
    await _waits(cluster, "slow", reason="NotEnoughTasks")
    await _pod(cluster, "slow-1", "slow")
    await reaches(cluster, _ref("slow"), "Completed")


async def test_a_queue_bounds_what_its_gangs_take(cluster: Cluster) -> None:
    await create(cluster, QUEUE, {"weight": 1, "capability": {"cpu": "200m"}}, "small")
    for name in ("one", "two"):
        await _made(cluster, name, pods=2, seconds=1, queue="small", minResources={"cpu": "200m"})

    async def never_both() -> bool:
        found, _ = await cluster.list(POD, "default")
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        assert len(_alive(placed)) <= 2
        return await _are(cluster, {"one": "Completed", "two": "Completed"})

    await eventually(never_both, within=60)


async def test_an_admitted_gang_without_pods_backs_out_and_tries_again(cluster: Cluster) -> None:
    ghost = await _group(cluster, "ghost", least=2, minResources={"cpu": "100m"})
    # One answer of the API server must show all three: the group is admitted again soon.
    await reaches(
        cluster,
        ghost,
        lambda found: (
            (phase_of(found), found.get("backOff", {}).get("count"), unschedulable(found).get("reason"))
            == ("Pending", 1, "BackingOff")
        ),
    )


def _job(seconds: float, *, replicas: int = 4, container: Object | None = None, **spec: Any) -> Object:
    work = task("work", f"exec sleep {seconds}", replicas, container=container)
    return {"schedulerName": "volcano", "tasks": [work], **spec}


async def test_jobs_of_volcano_run_one_after_the_other(cluster: Cluster) -> None:
    together: set[frozenset[str]] = set()

    async def all_are_done() -> bool:
        found, _ = await cluster.list(POD, "default")
        together.add(frozenset(str(pod["metadata"]["labels"].get("volcano.sh/job-name")) for pod in _alive(found)))
        jobs, _ = await cluster.list(VC_JOB, "default")
        return [phase_of(job.get("status") or {}) for job in jobs] == ["Completed"] * 3

    for name in ("ant", "bee", "cat"):
        await create(cluster, VC_JOB, _job(0.5), name)
    await eventually(all_are_done, within=90)
    assert all(len(names) <= 1 for names in together), "pods of two Jobs were there at the same time"
    pods, _ = await cluster.list(POD, "default")
    gangs = [[pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")] for name in ("ant", "bee", "cat")]
    assert [len(gang) for gang in gangs] == [4, 4, 4]
    assert _one_after_the_other(*gangs)


@pytest.fixture
async def here(cluster: Cluster) -> AsyncIterator[Object]:
    """Returns the selector of the one real node; a second, larger node never runs a pod."""
    (known,) = (await cluster.list(NODE))[0]
    large = await create(cluster, NODE, {}, "large", labels={"zone": "far"})
    allocatable, ready = {"cpu": "64", "memory": "64Gi", "pods": "99"}, [{"type": "Ready", "status": "True"}]
    await cluster.patch(large, {"status": {"allocatable": allocatable, "conditions": ready}}, subresource="status")
    yield {"nodeSelector": {"kubernetes.io/hostname": known["metadata"]["name"]}}
    await cluster.patch(Ref(NODE, "", known["metadata"]["name"]), {"spec": {"unschedulable": None}})
    await cluster.delete(large)


async def _waits(cluster: Cluster, name: str, text: str = "", reason: str = "") -> None:
    """Waits until a group is unschedulable with this text in its message, for this reason."""

    def waits(found: Object) -> bool:
        condition = unschedulable(found)
        return bool(condition) and text in condition["message"] and reason in condition["reason"]

    await reaches(cluster, _ref(name), waits)


async def test_a_gang_starts_only_where_its_pods_may_go(cluster: Cluster, here: Object) -> None:
    for name, pods in (("five", 5), ("four", 4)):
        await _group(cluster, name, least=pods)
    for name, pods in (("five", 5), ("four", 4)):
        for index in range(pods):
            await _pod(cluster, f"{name}-{index}", name, **here)
    await reaches(cluster, _ref("four"), "Completed")
    await _waits(cluster, "five", "not for each of its 5 pods on one that takes it, even were they empty")
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "five"))


async def test_a_job_waits_while_its_node_is_cordoned(cluster: Cluster, broker: Redis, here: Object) -> None:
    node = Ref(NODE, "", here["nodeSelector"]["kubernetes.io/hostname"])
    await cluster.patch(node, {"spec": {"unschedulable": True}})
    store = Store(broker, Keys("penstock"), {})

    async def seen() -> bool:
        known = await store.get(node)
        return bool(known and known.body and known.body["spec"].get("unschedulable"))

    await eventually(seen)
    spec = {"tasks": [task("work", "exec sleep 0.1", 2, pod=here)]}
    job = await cluster.create(VC_JOB, manifest(VC_JOB, spec, "picky"))
    await _waits(cluster, f"picky-{job['metadata']['uid']}", "there is a pod in the gang that no node takes")
    assert await _names(cluster, "picky") == []
    await cluster.patch(node, {"spec": {"unschedulable": None}})
    await reaches(cluster, ref_of(VC_JOB, job), "Completed")


async def _names(cluster: Cluster, job: str, *, placed: bool | None = None) -> list[str]:
    """The pods of a job; placed: only those that have a node, or none."""
    found, _ = await cluster.list(POD, "default")
    return sorted(
        pod["metadata"]["name"]
        for pod in found
        if (pod["metadata"].get("labels") or {}).get("volcano.sh/job-name") == job
        and not pod["metadata"].get("deletionTimestamp")
        and (placed is None or bool(pod["spec"].get("nodeName")) == placed)
    )


async def test_an_elastic_job_takes_what_is_left_and_leaves_later_gangs_their_turn(cluster: Cluster) -> None:
    await create(cluster, VC_JOB, _job(600, replicas=9, minAvailable=1), "wide")

    async def full() -> bool:
        return len(await _names(cluster, "wide")) == 9 and len(await _names(cluster, "wide", placed=True)) == 4

    await eventually(full, within=60)
    assert await _names(cluster, "wide", placed=True) == [f"wide-work-{index}" for index in range(4)]
    await _made(cluster, "late", pods=2, seconds=0.1)
    await _waits(cluster, "late", reason="NotEnoughResources")
    for index in (2, 3):
        await cluster.delete(Ref(POD, "default", f"wide-work-{index}"), grace=0)
    # They are made again, and wait behind a gang that came later than their job.
    await reaches(cluster, _ref("late"), "Completed")
    await eventually(full, within=60)


async def test_a_job_that_waited_for_as_long_as_it_may_is_over(cluster: Cluster) -> None:
    limit = {"penstock.dev/waiting-limit": "2s"}
    job = await create(cluster, VC_JOB, _job(0.1, replicas=99), "hopeless", annotations=limit)
    found = await reaches(cluster, job, "Terminated")
    assert found["state"]["reason"] == "WaitingLimitExceeded"
    assert not await _names(cluster, "hopeless")


async def test_a_job_never_grows_over_what_its_queue_may_have(cluster: Cluster) -> None:
    await open_queue(cluster, "narrow", weight=1, capability={"pods": "2"})
    job = await create(cluster, VC_JOB, _job(0.5, replicas=6, minAvailable=1, queue="narrow"), "long")
    most = 0

    async def done() -> bool:
        nonlocal most
        found, _ = await cluster.list(POD, "default")
        most = max(most, sum(bool(pod["spec"].get("nodeName")) for pod in _alive(found)))
        return await is_in(cluster, job, "Completed")

    await eventually(done, within=60)
    assert most in (1, 2)
    assert len(await _names(cluster, "long")) == 6


async def test_pods_that_wait_for_a_timeout_are_one_entry_of_the_status(cluster: Cluster) -> None:
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "4s"}
    job = await create(cluster, VC_JOB, _job(600, replicas=40, minAvailable=1, policies=[policy]), "patient")
    most = 0

    def aborted(found: Object) -> bool:
        nonlocal most
        most = max(most, len(found.get("delayed") or ()))
        return phase_of(found) == "Aborted"

    await reaches(cluster, job, aborted)
    assert most == 1


@cases(("at once", 0.0), ("when its first stage has been running for a while", 1.5))
async def test_a_stage_waits_for_room_in_its_queue(delay: float, cluster: Cluster) -> None:
    queue = f"narrow-{int(delay)}"
    await open_queue(cluster, queue, weight=1, capability={"cpu": "1"})
    container: Object = {"resources": {"requests": {"cpu": "600m"}}}
    if delay:
        probe = {"exec": {"command": ["/bin/sleep", str(delay)]}, "periodSeconds": 1, "timeoutSeconds": 5}
        container["readinessProbe"] = probe
    first = task("work", "exec sleep 600", container=container)
    second = {**first, "name": "then", "dependsOn": {"name": [first["name"]]}}
    spec = {"schedulerName": "volcano", "queue": queue, "tasks": [first, second]}
    made = await cluster.create(VC_JOB, manifest(VC_JOB, spec, "staged"))
    group = f"staged-{made['metadata']['uid']}"
    await _waits(cluster, group, f"queue {queue} has 400m of 1 cpu left, the gang needs 600m")
    assert await _names(cluster, "staged", placed=True) == [f"staged-{first['name']}-0"]
    await cluster.patch(Ref(QUEUE, "", queue), {"spec": {"capability": {"cpu": "2"}}})

    async def both() -> bool:
        return len(await _names(cluster, "staged", placed=True)) == 2

    await eventually(both, within=60)


async def test_no_pod_of_a_group_that_was_let_through_before_it_had_any_starts_alone(cluster: Cluster) -> None:
    await _group(cluster, "trio", least=3, minResources={"cpu": "300m"})
    await reaches(cluster, _ref("trio"), "Inqueue")
    for index in range(2):
        await _pod(cluster, f"trio-{index}", "trio")
    # Time passes, and with it the time that a gang has: the two are held back, and their room is others'.
    await reaches(cluster, _ref("trio"), "Pending")
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "trio"))
    await _pod(cluster, "trio-2", "trio")
    await reaches(cluster, _ref("trio"), "Completed")


async def test_a_queue_below_its_share_gets_room_back_from_one_above(cluster: Cluster) -> None:
    # The node runs four pods at once: two of each queue are its share.
    await open_queue(cluster, "lent", weight=1)
    await open_queue(cluster, "owed", weight=1)
    jobs = [await create(cluster, VC_JOB, _job(600, replicas=2, queue="lent"), name) for name in ("one", "two")]
    for job in jobs:
        await reaches(cluster, job, "Running")
    claims = await create(cluster, VC_JOB, _job(600, replicas=2, queue="owed"), "claims")
    await reaches(cluster, claims, "Running")
    # Both were created within one second or not: either may be the younger one.
    (lost,) = [job for job in jobs if not await _names(cluster, job.name, placed=True)]
    uid = (await cluster.get(lost))["metadata"]["uid"]
    await reports(cluster, f"{lost.name}-{uid}", "Reclaimed", "of queue owed")
    await cluster.delete(claims)

    async def again() -> bool:
        return len(await _names(cluster, lost.name, placed=True)) == 2

    await eventually(again, within=60)
    assert not (await status(cluster, lost)).get("retryCount"), "a gang that made room has not failed"


@pytest.fixture
async def limited(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Three pods are allowed at once."""
    quota = await create(cluster, RESOURCE_QUOTA, {"hard": {"pods": "3"}}, "three")
    yield cluster
    await cluster.delete(quota)


async def test_a_gang_waits_for_its_quota_which_is_never_exceeded(limited: Cluster) -> None:
    first = await create(limited, VC_JOB, _job(600, replicas=3), "first")
    await reaches(limited, first, "Running")
    second = await limited.create(VC_JOB, manifest(VC_JOB, _job(0.2, replicas=1), "second"))
    group = f"second-{second['metadata']['uid']}"
    await _waits(limited, group, "quota three allows 3 of pods: 3 are used, 1 more are needed")
    assert await _names(limited, "second") == []
    with pytest.raises(ClusterError, match="exceeded quota: three, requested: pods=1, used: pods=3, limited: pods=3"):
        await _pod(limited, "one-more", "nobody")
    await limited.delete(first)
    await reaches(limited, ref_of(VC_JOB, second), "Completed")
    counted = {"hard": {"pods": "3"}, "used": {"pods": "0"}}
    await reaches(limited, Ref(RESOURCE_QUOTA, "default", "three"), lambda found: found == counted)
