"""Ordinary pods that ask for Volcano's scheduler, on the embedded cluster: gathered, let go together, and tidied up."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api import conditions
from workers.api.kinds import EVENT, JOB, POD, POD_GROUP, QUEUE, REPLICA_SET, Object, Ref, ref_of
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:

        async def ready() -> bool:
            queues, _ = await cluster.list(QUEUE)
            states = {queue["metadata"]["name"]: (queue.get("status") or {}).get("state") for queue in queues}
            return states.get("default") == "Open"

        await eventually(ready)
        yield cluster


def template(command: str, **annotations: str) -> Object:
    """A pod template for Volcano's scheduler."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", command],
        "resources": {"requests": {"cpu": "10m"}},
    }
    spec = {
        "schedulerName": "volcano",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {"metadata": {"annotations": annotations}, "spec": spec}


STAYS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


async def lone(cluster: Cluster, name: str, command: str, **annotations: str) -> Object:
    body = template(command)
    body["metadata"] = {"name": name, "namespace": "default", "annotations": annotations}
    return await cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", **body})


async def replicas(cluster: Cluster, name: str, number: int, **annotations: str) -> Object:
    made = template(STAYS)
    made["metadata"]["labels"] = {"app": name}
    made["spec"]["restartPolicy"] = "Always"
    body = {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"replicas": number, "selector": {"matchLabels": {"app": name}}, "template": made},
    }
    return await cluster.create(REPLICA_SET, body)


async def scale(cluster: Cluster, name: str, number: int) -> None:
    await cluster.patch(Ref(REPLICA_SET, "default", name), {"spec": {"replicas": number}})


async def phase_is(cluster: Cluster, ref: Ref, phase: str) -> bool:
    try:
        return ((await cluster.get(ref)).get("status") or {}).get("phase") == phase
    except NotFound:
        return False


async def gone(cluster: Cluster, ref: Ref) -> bool:
    try:
        await cluster.get(ref)
    except NotFound:
        return True
    return False


async def members(cluster: Cluster, group: Ref) -> list[Object]:
    pods, _ = await cluster.list(POD, "default")
    return [pod for pod in pods if (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) == group.name]


def group_of(body: Object) -> Ref:
    return Ref(POD_GROUP, "default", f"podgroup-{body['metadata']['uid']}")


async def spec_of(cluster: Cluster, group: Ref) -> dict[str, Any]:
    return dict((await cluster.get(group))["spec"])


async def test_a_lone_pod_has_a_group_of_its_own_and_runs(cluster: Cluster) -> None:
    pod = await lone(cluster, "lone", "exit 0", **{"volcano.sh/preemptable": "true"})
    group = group_of(pod)
    await eventually(lambda: phase_is(cluster, ref_of(POD, pod), "Succeeded"))
    await eventually(lambda: phase_is(cluster, group, "Completed"))
    stored = await cluster.get(group)
    assert [each["uid"] for each in stored["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    assert stored["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"
    assert (stored["spec"]["queue"], stored["spec"]["minMember"]) == ("default", 1)
    await cluster.delete(ref_of(POD, pod))
    # Who owns nothing any more is collected.
    await eventually(lambda: gone(cluster, group))


async def test_pods_of_a_replicaset_share_a_group_that_follows_it(cluster: Cluster) -> None:
    workload = await replicas(cluster, "web", 3, **{MIN_MEMBER: "2", "volcano.sh/revocable-zone": "*"})
    group = group_of(workload)
    await eventually(lambda: phase_is(cluster, group, "Running"))

    async def counts() -> bool:
        return (await cluster.get(group))["status"].get("running") == 3

    await eventually(counts)
    assert len(await members(cluster, group)) == 3
    spec = await spec_of(cluster, group)
    assert (spec["minMember"], spec["minResources"]["cpu"]) == (2, "20m")

    await cluster.patch(ref_of(REPLICA_SET, workload), {"metadata": {"annotations": {MIN_MEMBER: "3"}}})

    async def follows() -> bool:
        spec = await spec_of(cluster, group)
        return (spec["minMember"], spec["minResources"]["cpu"]) == (3, "30m")

    await eventually(follows)
    await scale(cluster, "web", 0)
    await eventually(lambda: gone(cluster, group))
    await scale(cluster, "web", 3)
    await eventually(lambda: phase_is(cluster, group, "Running"))
    await cluster.delete(ref_of(REPLICA_SET, workload))
    await eventually(lambda: gone(cluster, group))


async def test_fewer_pods_than_start_together_wait_until_there_are_enough(cluster: Cluster) -> None:
    workload = await replicas(cluster, "pair", 1, **{MIN_MEMBER: "2"})
    group = group_of(workload)

    async def told() -> bool:
        found = conditions.find(await cluster.get(group), "Unschedulable")
        return found is not None and found["message"] == "1 of 2 pods are there"

    await eventually(lambda: phase_is(cluster, group, "Pending"))
    await eventually(told)
    (alone,) = await members(cluster, group)
    assert [gate["name"] for gate in alone["spec"]["schedulingGates"]] == [GANG_GATE]
    await scale(cluster, "pair", 2)
    await eventually(lambda: phase_is(cluster, group, "Running"))
    await cluster.delete(ref_of(REPLICA_SET, workload))


async def test_pods_of_a_job_share_a_group(cluster: Cluster) -> None:
    spec = {"completions": 2, "parallelism": 2, "template": template("exit 0")}
    body = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": "batch", "namespace": "default", "annotations": {MIN_MEMBER: "2"}},
        "spec": spec,
    }
    job = await cluster.create(JOB, body)
    group = group_of(job)
    await eventually(lambda: phase_is(cluster, group, "Completed"))
    assert (await spec_of(cluster, group))["minMember"] == 2

    async def complete() -> bool:
        status = (await cluster.get(ref_of(JOB, job)))["status"]
        return any(each["type"] == "Complete" for each in status.get("conditions", ()))

    await eventually(complete)


async def test_a_pod_for_a_queue_that_is_not_there_says_so_and_runs_once_it_is(cluster: Cluster) -> None:
    pod = await lone(cluster, "early", "exit 0", **{"scheduling.volcano.sh/queue-name": "late"})

    async def told() -> bool:
        events, _ = await cluster.list(EVENT, "default")
        return any(
            event["involvedObject"]["name"] == "early"
            and event["reason"] == "FailedPodGroup"
            and "late" in event["message"]
            for event in events
        )

    await eventually(told)
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "late"}, "spec": {}}
    made = await cluster.create(QUEUE, queue)
    await eventually(lambda: phase_is(cluster, ref_of(POD, pod), "Succeeded"), 60)
    assert (await spec_of(cluster, group_of(pod)))["queue"] == "late"
    await cluster.delete(ref_of(POD, pod))
    await cluster.delete(ref_of(QUEUE, made))


async def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster) -> None:
    body = template("exit 0")
    del body["spec"]["schedulerName"]
    body["metadata"] = {"name": "other", "namespace": "default"}
    pod = await cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", **body})
    await eventually(lambda: phase_is(cluster, ref_of(POD, pod), "Succeeded"))
    stored = await cluster.get(ref_of(POD, pod))
    assert GROUP_NAME not in (stored["metadata"].get("annotations") or {})
    assert await gone(cluster, group_of(pod))
