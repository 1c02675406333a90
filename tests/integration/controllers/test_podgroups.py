"""Ordinary pods that ask for Volcano's scheduler, on the embedded cluster: gathered, let go together, and tidied up."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    connected,
    create,
    is_gone,
    manifest,
    phase_of,
    reaches,
    reports,
    task,
    unschedulable,
)
from tests.support.conditions import eventually
from tests.support.house import House
from workers.api import conditions
from workers.api.kinds import JOB, POD, POD_GROUP, QUEUE, REPLICA_SET, Object, Ref, ref_of
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with connected(running) as cluster:
        await reaches(cluster, Ref(QUEUE, "", "default"), "Open")
        yield cluster


def template(script: str, **annotations: str) -> Object:
    """A pod template for Volcano's scheduler."""
    made = task("", script, container={"resources": {"requests": {"cpu": "10m"}}}, pod={"schedulerName": "volcano"})
    return {"metadata": {"annotations": annotations}, "spec": made["template"]["spec"]}


STAYS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


async def lone(cluster: Cluster, name: str, script: str, **annotations: str) -> Object:
    body = manifest(POD, template(script)["spec"], name, annotations=annotations)
    return await cluster.create(POD, body)


async def replicas(cluster: Cluster, name: str, number: int, **annotations: str) -> Object:
    made = template(STAYS)
    made["metadata"]["labels"] = {"app": name}
    made["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": number, "selector": {"matchLabels": {"app": name}}, "template": made}
    return await cluster.create(REPLICA_SET, manifest(REPLICA_SET, spec, name, annotations=annotations))


async def scale(cluster: Cluster, name: str, number: int) -> None:
    await cluster.patch(Ref(REPLICA_SET, "default", name), {"spec": {"replicas": number}})


async def settled(cluster: Cluster, name: str, number: int) -> bool:
    """Returns whether the controller has seen the newest spec, and this many pods are there."""
    body = await cluster.get(Ref(REPLICA_SET, "default", name))
    status = body.get("status") or {}
    return (status.get("observedGeneration"), status.get("replicas")) == (body["metadata"]["generation"], number)


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
    await reaches(cluster, ref_of(POD, pod), "Succeeded")
    await reaches(cluster, group, "Completed")
    stored = await cluster.get(group)
    assert [each["uid"] for each in stored["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    assert stored["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"
    assert (stored["spec"]["queue"], stored["spec"]["minMember"]) == ("default", 1)
    await cluster.delete(ref_of(POD, pod))
    # Who owns nothing any more is collected.
    await eventually(lambda: is_gone(cluster, group))


async def test_pods_of_a_replicaset_share_a_group_that_follows_it(cluster: Cluster) -> None:
    workload = await replicas(cluster, "web", 3, **{MIN_MEMBER: "2", "volcano.sh/revocable-zone": "*"})
    group = group_of(workload)
    await reaches(cluster, group, "Running")
    await reaches(cluster, group, lambda found: found.get("running") == 3)
    assert len(await members(cluster, group)) == 3
    spec = await spec_of(cluster, group)
    assert (spec["minMember"], spec["minResources"]["cpu"]) == (2, "20m")

    await cluster.patch(ref_of(REPLICA_SET, workload), {"metadata": {"annotations": {MIN_MEMBER: "3"}}})

    async def follows() -> bool:
        spec = await spec_of(cluster, group)
        return (spec["minMember"], spec["minResources"]["cpu"]) == (3, "30m")

    await eventually(follows)
    await scale(cluster, "web", 0)
    await eventually(lambda: is_gone(cluster, group))
    await scale(cluster, "web", 3)
    await reaches(cluster, group, "Running")
    # Back before its pods could be deleted: they are the gang's as before.
    for number in (0, 3):
        await scale(cluster, "web", number)
    await eventually(lambda: settled(cluster, "web", 3))
    await reaches(cluster, group, "Running")
    await cluster.delete(ref_of(REPLICA_SET, workload))
    await eventually(lambda: is_gone(cluster, group))


async def test_fewer_pods_than_start_together_wait_until_there_are_enough(cluster: Cluster) -> None:
    workload = await replicas(cluster, "pair", 1, **{MIN_MEMBER: "2"})
    group = group_of(workload)
    found = await reaches(cluster, group, lambda found: unschedulable(found).get("message") == "1 of 2 pods are there")
    assert phase_of(found) == "Pending"
    (alone,) = await members(cluster, group)
    assert [gate["name"] for gate in alone["spec"]["schedulingGates"]] == [GANG_GATE]
    await scale(cluster, "pair", 2)
    await reaches(cluster, group, "Running")
    await cluster.delete(ref_of(REPLICA_SET, workload))


async def test_pods_of_a_job_share_a_group(cluster: Cluster) -> None:
    spec = {"completions": 2, "parallelism": 2, "template": template("exit 0")}
    job = await cluster.create(JOB, manifest(JOB, spec, "batch", annotations={MIN_MEMBER: "2"}))
    group = group_of(job)
    await reaches(cluster, group, "Completed")
    assert (await spec_of(cluster, group))["minMember"] == 2
    await reaches(cluster, ref_of(JOB, job), lambda found: conditions.find({"status": found}, "Complete"))


async def test_a_pod_for_a_queue_that_is_not_there_says_so_and_runs_once_it_is(cluster: Cluster) -> None:
    pod = await lone(cluster, "early", "exit 0", **{"scheduling.volcano.sh/queue-name": "late"})
    await reports(cluster, "early", "FailedPodGroup", "late")
    queue = await create(cluster, QUEUE, {}, "late")
    await reaches(cluster, ref_of(POD, pod), "Succeeded")
    assert (await spec_of(cluster, group_of(pod)))["queue"] == "late"
    await cluster.delete(ref_of(POD, pod))
    await cluster.delete(queue)


async def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster) -> None:
    spec = template("exit 0")["spec"]
    del spec["schedulerName"]
    pod = await cluster.create(POD, manifest(POD, spec, "other"))
    await reaches(cluster, ref_of(POD, pod), "Succeeded")
    stored = await cluster.get(ref_of(POD, pod))
    assert GROUP_NAME not in (stored["metadata"].get("annotations") or {})
    assert await is_gone(cluster, group_of(pod))
