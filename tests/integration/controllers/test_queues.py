"""Queues as vcctl handles them, on the embedded cluster: Commands, counters, and queues below others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    command,
    create,
    events_of,
    is_gone,
    is_in,
    open_queue,
    reaches,
    reports,
    status,
    task,
)
from tests.support.conditions import eventually
from workers.api.kinds import POD_GROUP, QUEUE, VC_JOB, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
PHASES = ("pending", "inqueue", "running", "unknown", "completed")

Make = Callable[..., Awaitable[Object]]


cluster = cluster_fixture()


@pytest.fixture
async def make(cluster: Cluster) -> AsyncIterator[Make]:
    """Creates queues; those still there at the end are deleted, the last one first."""
    made: list[Object] = []

    async def queue(name: str, **spec: Any) -> Object:
        made.append(await open_queue(cluster, name, **spec))
        return made[-1]

    yield queue
    for body in reversed(made):
        try:
            await cluster.delete(ref_of(QUEUE, body))
        except NotFound:
            continue


async def settles(cluster: Cluster, state: str, *names: str) -> None:
    """Waits until each of these queues has the state."""
    for name in names:
        await reaches(cluster, Ref(QUEUE, "", name), state)


async def counts(cluster: Cluster, name: str) -> dict[str, int]:
    """Returns the number of Events about an object by reason."""
    found: dict[str, int] = {}
    for event in await events_of(cluster, name):
        found[event["reason"]] = found.get(event["reason"], 0) + event["count"]
    return found


async def test_the_queues_that_must_be_there_are(cluster: Cluster) -> None:
    await settles(cluster, "Open", "root", "default")
    default = await cluster.get(Ref(QUEUE, "", "default"))
    assert (default["spec"]["parent"], default["spec"]["weight"]) == ("root", 1)


async def test_a_queue_is_closed_and_opened_by_commands(cluster: Cluster, make: Make) -> None:
    queue = await make("lane", weight=2)
    for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        issued = await command(cluster, queue, action)
        await settles(cluster, state, "lane")
        await eventually(lambda issued=issued: is_gone(cluster, issued))

    async def reported() -> bool:
        found = await counts(cluster, "lane")
        return found.get("CommandIssued") == 2 and {"CloseQueue", "OpenQueue"} <= found.keys()

    await eventually(reported)
    stored = await cluster.get(Ref(QUEUE, "", "lane"))
    assert (stored["spec"]["weight"], stored["spec"]["parent"]) == (2, "root")


async def test_many_commands_at_once_take_effect_once_each_and_in_their_order(cluster: Cluster, make: Make) -> None:
    queue = await make("busy")
    actions = ["CloseQueue", "OpenQueue"] * 5 + ["CloseQueue", "CloseQueue", "Nonsense"]
    for issued in [await command(cluster, queue, action) for action in actions]:
        await eventually(lambda issued=issued: is_gone(cluster, issued))
    await settles(cluster, "Closed", "busy")
    expected = {"CommandIssued": 12, "CloseQueue": 6, "OpenQueue": 5, "CommandIgnored": 1}

    async def reported() -> bool:
        return await counts(cluster, "busy") == expected

    await eventually(reported)


async def test_a_command_for_a_queue_that_does_not_exist_is_deleted(cluster: Cluster) -> None:
    # Without an owner the garbage collector leaves it alone.
    unknown = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": "nobody", "uid": "u"}}
    issued = await command(cluster, unknown, "CloseQueue", owned=False)
    await eventually(lambda: is_gone(cluster, issued))

    async def reported() -> bool:
        return await counts(cluster, issued.name) == {"CommandDropped": 1}

    await eventually(reported)


async def test_pod_groups_are_counted_and_hold_a_closing_queue(cluster: Cluster, make: Make) -> None:
    queue = await make("counted")
    groups = []
    for phase in ("Running", "Completed"):
        body = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "status": {"phase": phase}}
        body |= {"metadata": {"name": f"counted-{phase.lower()}", "namespace": "default"}}
        groups.append(await cluster.create(POD_GROUP, {**body, "spec": {"queue": "counted", "minMember": 1}}))
    counted = ref_of(QUEUE, queue)
    await reaches(cluster, counted, lambda found: sum(found.get(phase, 0) for phase in PHASES) == 2)
    await command(cluster, queue, "CloseQueue")
    await reaches(cluster, counted, "Closing")
    for each in groups:
        await cluster.delete(ref_of(POD_GROUP, each))
    found = await reaches(cluster, counted, "Closed")
    assert [found[phase] for phase in PHASES] == [0] * 5


async def test_queues_close_and_open_with_the_one_above(cluster: Cluster, make: Make) -> None:
    top = await make("top")
    await make("left", parent="top")
    right = await make("right", parent="top")
    await make("leaf", parent="left")
    await command(cluster, right, "CloseQueue")
    await settles(cluster, "Closed", "right")
    await command(cluster, top, "CloseQueue")
    await settles(cluster, "Closed", "top", "left", "leaf")
    annotations = (await cluster.get(Ref(QUEUE, "", "leaf")))["metadata"]["annotations"]
    assert annotations[CLOSED_BY_PARENT] == "true"
    await command(cluster, top, "OpenQueue")
    await settles(cluster, "Open", "top", "left", "leaf")
    # A Command closed it, not its parent.
    assert await is_in(cluster, ref_of(QUEUE, right), "Closed")


async def test_a_queue_opens_only_below_an_open_one(cluster: Cluster, make: Make) -> None:
    upper = await make("upper")
    lower = await make("lower", parent="upper")
    await command(cluster, upper, "CloseQueue")
    await settles(cluster, "Closed", "lower")
    issued = await command(cluster, lower, "OpenQueue")
    await eventually(lambda: is_gone(cluster, issued))
    assert await is_in(cluster, ref_of(QUEUE, lower), "Closed")
    await reports(cluster, "lower", "OpenQueue")


async def test_a_queue_counts_what_pods_of_those_below_it_take(cluster: Cluster, make: Make) -> None:
    await make("whole")
    await make("half", parent="whole")
    await make("quarter", parent="half")
    work = task("work", "exec sleep 600", 2, container={"resources": {"requests": {"cpu": "100m"}}})
    job = await create(cluster, VC_JOB, {"queue": "quarter", "tasks": [work]})

    async def counted(allocated: Object) -> bool:
        names = ("quarter", "half", "whole", "root")
        return [(await status(cluster, Ref(QUEUE, "", name))).get("allocated") for name in names] == [allocated] * 4

    await eventually(lambda: counted({"cpu": "200m", "pods": "2"}), within=60)
    await cluster.delete(job)
    await eventually(lambda: counted({}), within=60)
    levels = [(await status(cluster, Ref(QUEUE, "", name))).get("levels") for name in ("quarter", "half", "whole")]
    assert levels == [None, 2, 3]
