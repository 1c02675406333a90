"""Queues as vcctl handles them, on the embedded cluster: Commands, counters, and queues below others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api.kinds import COMMAND, EVENT, POD_GROUP, QUEUE, VC_JOB, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


@pytest.fixture
async def make(cluster: Cluster) -> AsyncIterator[Callable[..., Awaitable[Object]]]:
    """Makes queues; those still there at the end are deleted, the last one first."""
    made: list[Object] = []

    async def queue(name: str, **spec: Any) -> Object:
        body = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        made.append(await cluster.create(QUEUE, body))
        await eventually(lambda: state_is(cluster, name, "Open"))
        return made[-1]

    yield queue
    for body in reversed(made):
        ref = ref_of(QUEUE, body)

        async def gone(ref: Ref = ref) -> bool:
            try:
                await cluster.delete(ref)
                await cluster.get(ref)
            except NotFound:
                return True
            return False

        await gone()


async def state_is(cluster: Cluster, name: str, state: str) -> bool:
    return (await status_of(cluster, name)).get("state") == state


async def status_of(cluster: Cluster, name: str) -> Object:
    """Empty while the queue is not there."""
    try:
        return dict((await cluster.get(Ref(QUEUE, "", name))).get("status") or {})
    except NotFound:
        return {}


async def operate(cluster: Cluster, queue: Object, action: str, *, owned: bool = True) -> Ref:
    """The Command that `vcctl queue operate` makes."""
    name, uid = queue["metadata"]["name"], queue["metadata"]["uid"]
    target = {"apiVersion": QUEUE.api_version, "kind": "Queue", "name": name, "uid": uid, "controller": True}
    body = {
        "apiVersion": COMMAND.api_version,
        "kind": "Command",
        "metadata": {
            "generateName": f"{name}-{action.lower()}-",
            "namespace": "default",
            "ownerReferences": [target] if owned else [],
        },
        "target": target,
        "action": action,
    }
    return ref_of(COMMAND, await cluster.create(COMMAND, body))


async def consumed(cluster: Cluster, command: Ref) -> bool:
    try:
        await cluster.get(command)
    except NotFound:
        return True
    return False


async def reasons(cluster: Cluster, name: str) -> list[str]:
    """What was told of an object, by its events."""
    events, _ = await cluster.list(EVENT, "default")
    return [
        event["reason"] for event in events if event["involvedObject"]["name"] == name for _ in range(event["count"])
    ]


async def group(cluster: Cluster, name: str, queue: str, phase: str) -> Ref:
    body = {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": 1},
        "status": {"phase": phase},
    }
    return ref_of(POD_GROUP, await cluster.create(POD_GROUP, body))


async def test_the_queues_that_must_be_there_are(cluster: Cluster) -> None:
    for name in ("root", "default"):

        async def there(name: str = name) -> bool:
            return await state_is(cluster, name, "Open")

        await eventually(there)
    default = await cluster.get(Ref(QUEUE, "", "default"))
    assert (default["spec"]["parent"], default["spec"]["weight"]) == ("root", 1)


async def test_a_queue_is_closed_and_opened_by_commands(
    cluster: Cluster, make: Callable[..., Awaitable[Object]]
) -> None:
    queue = await make("lane", weight=2)
    for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        command = await operate(cluster, queue, action)
        await eventually(lambda state=state: state_is(cluster, "lane", state))
        await eventually(lambda command=command: consumed(cluster, command))

    async def told() -> bool:
        found = await reasons(cluster, "lane")
        return found.count("CommandIssued") == 2 and {"CloseQueue", "OpenQueue"} <= set(found)

    await eventually(told)
    stored = await cluster.get(Ref(QUEUE, "", "lane"))
    assert (stored["spec"]["weight"], stored["spec"]["parent"]) == (2, "root")


async def test_many_commands_at_once_take_effect_once_each_and_in_their_order(
    cluster: Cluster, make: Callable[..., Awaitable[Object]]
) -> None:
    queue = await make("busy")
    actions = ["CloseQueue", "OpenQueue"] * 5 + ["CloseQueue", "CloseQueue", "Nonsense"]
    commands = [await operate(cluster, queue, action) for action in actions]
    for command in commands:
        await eventually(lambda command=command: consumed(cluster, command))
    await eventually(lambda: state_is(cluster, "busy", "Closed"))

    async def told() -> bool:
        found = await reasons(cluster, "busy")
        counts = {reason: found.count(reason) for reason in set(found)}
        return counts == {"CommandIssued": 12, "CloseQueue": 6, "OpenQueue": 5, "CommandIgnored": 1}

    await eventually(told)


async def test_a_command_that_nobody_can_grant_does_not_stay(cluster: Cluster) -> None:
    # Nobody owns it: what belongs to nobody any more is collected, and needs no answer.
    command = await operate(cluster, {"metadata": {"name": "nobody", "uid": "u"}}, "CloseQueue", owned=False)
    await eventually(lambda: consumed(cluster, command))

    async def told() -> bool:
        return await reasons(cluster, command.name) == ["CommandDropped"]

    await eventually(told)


async def test_pod_groups_are_counted_and_hold_a_closing_queue(
    cluster: Cluster, make: Callable[..., Awaitable[Object]]
) -> None:
    queue = await make("counted")
    groups = [await group(cluster, f"counted-{phase.lower()}", "counted", phase) for phase in ("Running", "Completed")]

    async def counts() -> bool:
        status = await status_of(cluster, "counted")
        return sum(status.get(field, 0) for field in ("pending", "inqueue", "running", "unknown", "completed")) == 2

    await eventually(counts)
    await operate(cluster, queue, "CloseQueue")
    await eventually(lambda: state_is(cluster, "counted", "Closing"))
    for each in groups:
        await cluster.delete(each)
    await eventually(lambda: state_is(cluster, "counted", "Closed"))
    status = await status_of(cluster, "counted")
    assert [status[field] for field in ("pending", "inqueue", "running", "unknown", "completed")] == [0] * 5


async def test_queues_close_and_open_with_the_one_above(
    cluster: Cluster, make: Callable[..., Awaitable[Object]]
) -> None:
    top = await make("top")
    await make("left", parent="top")
    right = await make("right", parent="top")
    await make("leaf", parent="left")
    await operate(cluster, right, "CloseQueue")
    await eventually(lambda: state_is(cluster, "right", "Closed"))
    await operate(cluster, top, "CloseQueue")
    for name in ("top", "left", "leaf"):
        await eventually(lambda name=name: state_is(cluster, name, "Closed"))
    annotations = (await cluster.get(Ref(QUEUE, "", "leaf")))["metadata"]["annotations"]
    assert annotations[CLOSED_BY_PARENT] == "true"
    await operate(cluster, top, "OpenQueue")
    for name in ("top", "left", "leaf"):
        await eventually(lambda name=name: state_is(cluster, name, "Open"))
    # It was closed for itself, and stays so.
    assert await state_is(cluster, "right", "Closed")


async def test_a_queue_opens_only_below_an_open_one(cluster: Cluster, make: Callable[..., Awaitable[Object]]) -> None:
    upper = await make("upper")
    lower = await make("lower", parent="upper")
    await operate(cluster, upper, "CloseQueue")
    await eventually(lambda: state_is(cluster, "lower", "Closed"))
    command = await operate(cluster, lower, "OpenQueue")
    await eventually(lambda: consumed(cluster, command))
    assert await state_is(cluster, "lower", "Closed")

    async def told() -> bool:
        return "OpenQueue" in await reasons(cluster, "lower")

    await eventually(told)


async def test_a_queue_counts_what_pods_of_those_below_it_take(
    cluster: Cluster, make: Callable[..., Awaitable[Object]]
) -> None:
    await make("whole")
    await make("half", parent="whole")
    await make("quarter", parent="half")
    container = {"name": "main", "image": "none", "command": ["/bin/sleep", "600"]}
    container["resources"] = {"requests": {"cpu": "100m"}}  # type: ignore[assignment]
    task = {"replicas": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    body = {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {"name": "counted", "namespace": "default"},
        "spec": {"queue": "quarter", "tasks": [{"name": "work", **task}]},
    }
    await cluster.create(VC_JOB, body)

    async def counted(allocated: Object) -> bool:
        found = [(await status_of(cluster, name)).get("allocated") for name in ("quarter", "half", "whole", "root")]
        return found == [allocated] * 4

    await eventually(lambda: counted({"cpu": "200m", "pods": "2"}), within=60)
    await cluster.delete(Ref(VC_JOB, "default", "counted"))
    await eventually(lambda: counted({}), within=60)
    levels = [(await status_of(cluster, name)).get("levels") for name in ("quarter", "half", "whole")]
    assert levels == [None, 2, 3]
