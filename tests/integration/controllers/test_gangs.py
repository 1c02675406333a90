"""Gangs on the embedded cluster: held back until all of their pods may start, and never half of two at once."""

from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise

import pytest

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api import conditions
from workers.api.kinds import NODE, POD, POD_GROUP, QUEUE, RESOURCE_QUOTA, VC_JOB, Object, Ref, ref_of
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.client.rest import Cluster
from workers.errors import ClusterError, NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "gang_patience": "3"}


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    """The cluster; what a test leaves behind is deleted, so that the next one has all places."""
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster
        for kind in (VC_JOB, POD_GROUP, POD):
            for body in (await cluster.list(kind))[0]:
                with suppress(NotFound):
                    await cluster.delete(ref_of(kind, body), grace=0)

        async def empty() -> bool:
            return not (await cluster.list(POD))[0]

        await eventually(empty, within=60)


def _group(name: str, *, least: int, **spec: object) -> Object:
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, "queue": "default", **spec},
    }


def _pod(name: str, group: str, *, seconds: float = 0.5, cpu: str = "100m") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {GROUP_NAME: group}},
        "spec": {
            "restartPolicy": "Never",
            "schedulingGates": [{"name": GANG_GATE}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": ["/bin/sleep", str(seconds)],
                    "resources": {"requests": {"cpu": cpu}},
                }
            ],
        },
    }


async def _made(cluster: Cluster, name: str, *, pods: int, least: int | None = None, **more: str | float) -> None:
    await cluster.create(POD_GROUP, _group(name, least=pods if least is None else least))
    for index in range(pods):
        await cluster.create(POD, _pod(f"{name}-{index}", name, **more))  # type: ignore[arg-type]


async def _phase(cluster: Cluster, name: str) -> str:
    group = await cluster.get(Ref(POD_GROUP, "default", name))
    return str((group.get("status") or {}).get("phase") or "")


async def _pods(cluster: Cluster, name: str) -> list[Object]:
    found, _ = await cluster.list(POD, "default")
    return [pod for pod in found if (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) == name]


def _one_after_the_other(*gangs: list[Object]) -> bool:
    """Whether every process of a gang had ended before the first of the next one started (in whole seconds)."""
    ended = [
        [one["state"]["terminated"] for pod in pods for one in pod["status"]["containerStatuses"]] for pods in gangs
    ]
    times = sorted((min(one["startedAt"] for one in gang), max(one["finishedAt"] for one in gang)) for gang in ended)
    return all(before[1] <= after[0] for before, after in pairwise(times))


async def _are(cluster: Cluster, phases: dict[str, str]) -> bool:
    return {name: await _phase(cluster, name) for name in phases} == phases


async def test_two_gangs_that_fit_one_at_a_time_run_one_after_the_other(cluster: Cluster) -> None:
    # The node runs four pods at once.
    together: set[frozenset[str]] = set()

    async def both_are_done() -> bool:
        found, _ = await cluster.list(POD, "default")
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        alive = [pod for pod in placed if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
        together.add(frozenset(pod["metadata"]["annotations"][GROUP_NAME] for pod in alive))
        return await _are(cluster, {"first": "Completed", "second": "Completed"})

    for name in ("first", "second"):
        await _made(cluster, name, pods=4, seconds=1)
    await eventually(both_are_done, within=60)
    assert all(len(names) <= 1 for names in together), "pods of both had places at the same time"
    assert _one_after_the_other(await _pods(cluster, "first"), await _pods(cluster, "second"))


async def test_what_waits_says_why_and_starts_when_it_fits(cluster: Cluster) -> None:
    await _made(cluster, "busy", pods=3, seconds=600)
    await eventually(lambda: _are(cluster, {"busy": "Running"}), within=60)
    await _made(cluster, "late", pods=2, seconds=0.1)

    async def told() -> bool:
        found = conditions.find(await cluster.get(Ref(POD_GROUP, "default", "late")), "Unschedulable")
        return found is not None and found["message"] == "the cluster has 1 of 4 pods left, the gang needs 2"

    await eventually(told)
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "late"))
    for pod in await _pods(cluster, "busy"):
        await cluster.delete(Ref(POD, "default", pod["metadata"]["name"]), grace=0)
    await eventually(lambda: _are(cluster, {"late": "Completed"}), within=60)


async def test_a_gang_waits_until_all_its_pods_are_there(cluster: Cluster) -> None:
    await cluster.create(POD_GROUP, _group("slow", least=2))
    await cluster.create(POD, _pod("slow-0", "slow"))

    async def told() -> bool:
        found = conditions.find(await cluster.get(Ref(POD_GROUP, "default", "slow")), "Unschedulable")
        return found is not None and found["reason"] == "NotEnoughTasks"

    await eventually(told)
    await cluster.create(POD, _pod("slow-1", "slow"))
    await eventually(lambda: _are(cluster, {"slow": "Completed"}), within=60)


async def test_a_queue_bounds_what_its_gangs_take(cluster: Cluster) -> None:
    spec = {"weight": 1, "capability": {"cpu": "200m"}}
    await cluster.create(
        QUEUE, {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": "small"}, "spec": spec}
    )
    for name in ("one", "two"):
        await cluster.create(POD_GROUP, _group(name, least=2, queue="small", minResources={"cpu": "200m"}))
        for index in range(2):
            await cluster.create(POD, _pod(f"{name}-{index}", name, seconds=1))

    async def never_both() -> bool:
        found, _ = await cluster.list(POD, "default")
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        alive = [pod for pod in placed if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
        assert len(alive) <= 2
        return await _are(cluster, {"one": "Completed", "two": "Completed"})

    await eventually(never_both, within=60)


async def test_an_admitted_gang_without_pods_backs_out_and_tries_again(cluster: Cluster) -> None:
    await cluster.create(POD_GROUP, _group("ghost", least=2, minResources={"cpu": "100m"}))

    ghost: Object = {}

    async def backed_out() -> bool:
        # Seen as one: it tries again soon.
        nonlocal ghost
        ghost = await cluster.get(Ref(POD_GROUP, "default", "ghost"))
        status = ghost.get("status") or {}
        return status.get("phase") == "Pending" and status.get("backOff", {}).get("count") == 1

    await eventually(backed_out, within=60)
    found = conditions.find(ghost, "Unschedulable")
    assert found is not None
    assert found["reason"] == "BackingOff"


def _job(name: str, seconds: float, *, replicas: int = 4) -> Object:
    container = {"name": "main", "image": "none", "command": ["/bin/sleep", str(seconds)]}
    task = {
        "name": "work",
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "tasks": [task]},
    }


async def test_jobs_of_volcano_run_one_after_the_other(cluster: Cluster) -> None:
    together: set[frozenset[str]] = set()

    async def all_are_done() -> bool:
        found, _ = await cluster.list(POD, "default")
        alive = [pod for pod in found if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
        together.add(frozenset(str(pod["metadata"]["labels"].get("volcano.sh/job-name")) for pod in alive))
        jobs, _ = await cluster.list(VC_JOB, "default")
        phases = [((job.get("status") or {}).get("state") or {}).get("phase") for job in jobs]
        return phases == ["Completed"] * 3

    for name in ("ant", "bee", "cat"):
        await cluster.create(VC_JOB, _job(name, 0.5))
    await eventually(all_are_done, within=90)
    assert all(len(names) <= 1 for names in together), "pods of two Jobs were there at the same time"
    pods, _ = await cluster.list(POD, "default")
    gangs = [[pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")] for name in ("ant", "bee", "cat")]
    assert [len(gang) for gang in gangs] == [4, 4, 4]
    assert _one_after_the_other(*gangs)


@pytest.fixture
async def here(cluster: Cluster) -> AsyncIterator[Object]:
    """What pods that must run on the one node select; there is a larger one, and nothing ever runs on that."""
    (known,) = (await cluster.list(NODE))[0]
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "large", "labels": {"zone": "far"}}, "spec": {}}
    await cluster.create(NODE, body)
    status = {
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "99"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await cluster.patch(Ref(NODE, "", "large"), {"status": status}, subresource="status")
    yield {"nodeSelector": {"kubernetes.io/hostname": known["metadata"]["name"]}}
    await cluster.patch(Ref(NODE, "", known["metadata"]["name"]), {"spec": {"unschedulable": None}})
    await cluster.delete(Ref(NODE, "", "large"))


async def _waits(cluster: Cluster, name: str) -> str:
    """Why a group waits."""
    try:
        group = await cluster.get(Ref(POD_GROUP, "default", name))
    except NotFound:
        return ""
    return str((conditions.find(group, "Unschedulable") or {}).get("message") or "")


async def test_a_gang_starts_only_where_its_pods_may_go(cluster: Cluster, here: Object) -> None:
    await cluster.create(POD_GROUP, _group("five", least=5))
    await cluster.create(POD_GROUP, _group("four", least=4))
    for name, pods in (("five", 5), ("four", 4)):
        for index in range(pods):
            body = _pod(f"{name}-{index}", name)
            await cluster.create(POD, {**body, "spec": {**body["spec"], **here}})
    await eventually(lambda: _are(cluster, {"four": "Completed"}), within=60)

    async def told() -> bool:
        return "not for each of its 5 pods on one that takes it, even were they empty" in await _waits(cluster, "five")

    await eventually(told)
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "five"))


async def test_a_job_waits_while_its_node_is_cordoned(cluster: Cluster, here: Object) -> None:
    node = Ref(NODE, "", here["nodeSelector"]["kubernetes.io/hostname"])
    await cluster.patch(node, {"spec": {"unschedulable": True}})
    job = _job("picky", 0.1, replicas=2)
    job["spec"]["tasks"][0]["template"]["spec"].update(here)
    made = await cluster.create(VC_JOB, job)

    async def told() -> bool:
        text = await _waits(cluster, f"picky-{made['metadata']['uid']}")
        return "there is a pod in the gang that no node takes" in text

    await eventually(told, within=60)
    assert await _names(cluster, "picky") == []
    await cluster.patch(node, {"spec": {"unschedulable": None}})
    await eventually(lambda: _job_is(cluster, "picky", "Completed"), within=60)


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


async def _job_is(cluster: Cluster, name: str, phase: str) -> bool:
    job = await cluster.get(Ref(VC_JOB, "default", name))
    return ((job.get("status") or {}).get("state") or {}).get("phase") == phase


async def test_an_elastic_job_takes_what_is_left_and_leaves_later_gangs_their_turn(cluster: Cluster) -> None:
    job = _job("wide", 600, replicas=9)
    job["spec"]["minAvailable"] = 1
    await cluster.create(VC_JOB, job)

    async def full() -> bool:
        return len(await _names(cluster, "wide")) == 9 and len(await _names(cluster, "wide", placed=True)) == 4

    await eventually(full, within=60)
    assert await _names(cluster, "wide", placed=True) == [f"wide-work-{index}" for index in range(4)]
    await _made(cluster, "late", pods=2, seconds=0.1)

    async def told() -> bool:
        found = conditions.find(await cluster.get(Ref(POD_GROUP, "default", "late")), "Unschedulable")
        return found is not None and found["reason"] == "NotEnoughResources"

    await eventually(told)
    for index in (2, 3):
        await cluster.delete(Ref(POD, "default", f"wide-work-{index}"), grace=0)
    # They are made again, and wait behind a gang that came later than their job.
    await eventually(lambda: _are(cluster, {"late": "Completed"}), within=60)
    await eventually(full, within=60)


async def test_a_job_that_waited_for_as_long_as_it_may_is_over(cluster: Cluster) -> None:
    job = _job("hopeless", 0.1, replicas=99)
    job["metadata"]["annotations"] = {"penstock.dev/waiting-limit": "2s"}
    await cluster.create(VC_JOB, job)
    await eventually(lambda: _job_is(cluster, "hopeless", "Terminated"), within=60)
    state = (await cluster.get(Ref(VC_JOB, "default", "hopeless")))["status"]["state"]
    assert state["reason"] == "WaitingLimitExceeded"
    assert not await _names(cluster, "hopeless")


async def test_a_job_never_grows_over_what_its_queue_may_have(cluster: Cluster) -> None:
    spec = {"weight": 1, "capability": {"pods": "2"}}
    await cluster.create(
        QUEUE, {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": "narrow"}, "spec": spec}
    )
    job = _job("long", 0.5, replicas=6)
    job["spec"] |= {"minAvailable": 1, "queue": "narrow"}

    async def open_() -> bool:
        return ((await cluster.get(Ref(QUEUE, "", "narrow"))).get("status") or {}).get("state") == "Open"

    await eventually(open_)
    await cluster.create(VC_JOB, job)
    most = 0

    async def done() -> bool:
        nonlocal most
        found, _ = await cluster.list(POD, "default")
        alive = [pod for pod in found if (pod.get("status") or {}).get("phase") in ("Pending", "Running")]
        most = max(most, sum(bool(pod["spec"].get("nodeName")) for pod in alive))
        return await _job_is(cluster, "long", "Completed")

    await eventually(done, within=60)
    assert most in (1, 2)
    assert len(await _names(cluster, "long")) == 6


async def test_pods_that_wait_for_a_timeout_are_one_entry_of_the_status(cluster: Cluster) -> None:
    job = _job("patient", 600, replicas=40)
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "4s"}
    job["spec"] |= {"minAvailable": 1, "policies": [policy]}
    await cluster.create(VC_JOB, job)
    most = 0

    async def aborted() -> bool:
        nonlocal most
        status = (await cluster.get(Ref(VC_JOB, "default", "patient"))).get("status") or {}
        most = max(most, len(status.get("delayed") or ()))
        return await _job_is(cluster, "patient", "Aborted")

    await eventually(aborted, within=90)
    assert most == 1


async def _queue(cluster: Cluster, name: str, **capability: str) -> None:
    """A queue of so much, once it is open."""
    head = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}}
    await cluster.create(QUEUE, {**head, "spec": {"weight": 1, "capability": capability}})

    async def open_() -> bool:
        return ((await cluster.get(Ref(QUEUE, "", name))).get("status") or {}).get("state") == "Open"

    await eventually(open_)


@pytest.mark.parametrize("delay", [0.0, 1.5], ids=["at once", "when its first stage has been running for a while"])
async def test_a_stage_waits_for_room_in_its_queue(cluster: Cluster, delay: float) -> None:
    queue = f"narrow-{int(delay)}"
    await _queue(cluster, queue, cpu="1")
    job = _job("staged", 600)
    (first,) = job["spec"]["tasks"]
    first["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "600m"}}
    probe = {"exec": {"command": ["/bin/sleep", str(delay)]}, "periodSeconds": 1, "timeoutSeconds": 5}
    first["template"]["spec"]["containers"][0] |= {"readinessProbe": probe} if delay else {}
    second = {**first, "name": "then", "dependsOn": {"name": [first["name"]]}}
    job["spec"] |= {"queue": queue, "tasks": [{**first, "replicas": 1}, {**second, "replicas": 1}]}
    job["spec"].pop("minAvailable", None)
    made = await cluster.create(VC_JOB, job)
    group = f"staged-{made['metadata']['uid']}"

    async def told() -> bool:
        return f"queue {queue} has 400m of 1 cpu left, the gang needs 600m" in await _waits(cluster, group)

    await eventually(told, within=60)
    assert await _names(cluster, "staged", placed=True) == [f"staged-{first['name']}-0"]
    await cluster.patch(Ref(QUEUE, "", queue), {"spec": {"capability": {"cpu": "2"}}})

    async def both() -> bool:
        return len(await _names(cluster, "staged", placed=True)) == 2

    await eventually(both, within=60)


async def test_no_pod_of_a_group_that_was_let_through_before_it_had_any_starts_alone(cluster: Cluster) -> None:
    await cluster.create(POD_GROUP, _group("trio", least=3, minResources={"cpu": "300m"}))
    await eventually(lambda: _are(cluster, {"trio": "Inqueue"}))
    for index in range(2):
        await cluster.create(POD, _pod(f"trio-{index}", "trio"))
    # Time passes, and with it the time that a gang has: the two are held back, and their room is others'.
    await eventually(lambda: _are(cluster, {"trio": "Pending"}), within=60)
    assert all(pod["spec"].get("schedulingGates") for pod in await _pods(cluster, "trio"))
    await cluster.create(POD, _pod("trio-2", "trio"))
    await eventually(lambda: _are(cluster, {"trio": "Completed"}), within=60)


@pytest.fixture
async def limited(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Three pods are allowed at once."""
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "three", "namespace": "default"}}
    await cluster.create(RESOURCE_QUOTA, {**head, "spec": {"hard": {"pods": "3"}}})
    yield cluster
    await cluster.delete(Ref(RESOURCE_QUOTA, "default", "three"))


async def test_a_gang_waits_for_its_quota_which_is_never_exceeded(limited: Cluster) -> None:
    made = [await limited.create(VC_JOB, _job("first", 600, replicas=3))]
    await eventually(lambda: _job_is(limited, "first", "Running"), within=60)
    made.append(await limited.create(VC_JOB, _job("second", 0.2, replicas=1)))
    told = "quota three allows 3 of pods: 3 are used, 1 more are needed"

    async def waits() -> bool:
        return told in await _waits(limited, f"second-{made[1]['metadata']['uid']}")

    await eventually(waits, within=60)
    assert await _names(limited, "second") == []
    with pytest.raises(ClusterError, match="exceeded quota: three, requested: pods=1, used: pods=3, limited: pods=3"):
        await limited.create(POD, _pod("one-more", "nobody"))
    await limited.delete(ref_of(VC_JOB, made[0]))
    await eventually(lambda: _job_is(limited, "second", "Completed"), within=60)
    quota = Ref(RESOURCE_QUOTA, "default", "three")

    async def counted() -> bool:
        status = (await limited.get(quota))["status"]
        return bool(status == {"hard": {"pods": "3"}, "used": {"pods": "0"}})

    await eventually(counted)
