"""Volcano's objects on a running cluster: how tests of its kinds create them, wait for them and read them."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api import conditions
from workers.api.kinds import COMMAND, EVENT, POD, QUEUE, Kind, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.errors import NotFound

#: The settings of most modules: equal settings share one running Penstock.
ENABLED = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}

_numbers = itertools.count(1)


@asynccontextmanager
async def connected(running: House, *kinds: Kind) -> AsyncIterator[Cluster]:
    """Connects to the cluster; afterwards deletes every object of these kinds, so that the next test has all nodes."""
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster
        for kind in kinds:
            for body in (await cluster.list(kind))[0]:
                with suppress(NotFound):
                    await cluster.delete(ref_of(kind, body), grace=0 if kind == POD else None)
        if kinds:
            await eventually(lambda: none_left(cluster, POD), 60)


def cluster_fixture(*kinds: Kind) -> Any:
    """Returns the fixture `cluster` of a module: a client of what runs, which deletes objects of these kinds."""

    @pytest.fixture
    async def cluster(running: House) -> AsyncIterator[Cluster]:
        async with connected(running, *kinds) as cluster:
            yield cluster

    return cluster


def manifest(kind: Kind, spec: Object, name: str = "", **metadata: Any) -> Object:
    """Returns an object of the namespace default; without a name it gets a new one."""
    named = {"name": name or f"{kind.kind.lower()}-{next(_numbers)}", **metadata}
    place = {"namespace": "default"} if kind.namespaced else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**named, **place}, "spec": spec}


async def create(cluster: Cluster, kind: Kind, spec: Object, name: str = "", **metadata: Any) -> Ref:
    """Creates an object; without a name it gets a new one."""
    return ref_of(kind, await cluster.create(kind, manifest(kind, spec, name, **metadata)))


def task(
    name: str,
    script: str,
    replicas: int = 1,
    *,
    container: Object | None = None,
    pod: Object | None = None,
    **more: Any,
) -> Object:
    """Returns a task whose pods run a shell script. container, pod: laid over the specs of its containers and pods."""
    main = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script], **(container or {})}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


async def open_queue(cluster: Cluster, name: str = "", **spec: Any) -> Object:
    """Creates a queue and returns it once it is open."""
    queue = await create(cluster, QUEUE, spec, name)
    await reaches(cluster, queue, "Open")
    return await cluster.get(queue)


async def command(cluster: Cluster, target: Object, action: str, *, owned: bool = True) -> Ref:
    """Creates the Command that vcctl creates for a Job or a queue."""
    names = {name: target["metadata"][name] for name in ("name", "uid")}
    reference = {"apiVersion": target["apiVersion"], "kind": target["kind"], **names, "controller": True}
    metadata = {
        "namespace": "default",
        "generateName": f"{names['name']}-{action.lower()}-",
        "ownerReferences": [reference] if owned else [],
    }
    body = {"apiVersion": COMMAND.api_version, "kind": COMMAND.kind, "metadata": metadata}
    return ref_of(COMMAND, await cluster.create(COMMAND, {**body, "target": reference, "action": action}))


async def status(cluster: Cluster, ref: Ref) -> Object:
    """Returns an object's status; empty while the object does not exist."""
    try:
        return dict((await cluster.get(ref)).get("status") or {})
    except NotFound:
        return {}


def phase_of(status: Object) -> str:
    """Returns the phase of a Job or flow, the state of a queue, or the phase of a pod or PodGroup."""
    state = status.get("state") or status.get("phase") or ""
    return str(state if isinstance(state, str) else state.get("phase") or "")


async def is_in(cluster: Cluster, ref: Ref, phase: str) -> bool:
    return phase_of(await status(cluster, ref)) == phase


async def reaches(cluster: Cluster, ref: Ref, wanted: str | Callable[[Object], object]) -> Object:
    """Returns an object's status once it has this phase, or is as wanted."""
    last: Object = {}

    async def there() -> object:
        nonlocal last
        last = await status(cluster, ref)
        return wanted(last) if callable(wanted) else phase_of(last) == wanted

    await eventually(there, 90)
    return last


async def is_gone(cluster: Cluster, ref: Ref) -> bool:
    try:
        await cluster.get(ref)
    except NotFound:
        return True
    return False


async def none_left(cluster: Cluster, *kinds: Kind) -> bool:
    return not any([(await cluster.list(kind))[0] for kind in kinds])


async def events_of(cluster: Cluster, name: str) -> list[Object]:
    """Returns the Events about objects of this name."""
    return (await cluster.list(EVENT, "default", field_selector=f"involvedObject.name={name}"))[0]


async def reports(cluster: Cluster, name: str, reason: str, text: str = "") -> None:
    """Waits for an Event about an object of this name."""

    async def reported() -> bool:
        events = await events_of(cluster, name)
        return any(event["reason"] == reason and text in event["message"] for event in events)

    await eventually(reported)


def unschedulable(status: Object) -> Object:
    """Returns the condition of a PodGroup that waits; empty without one."""
    return conditions.find({"status": status}, "Unschedulable") or {}


def lines(path: Path) -> list[str]:
    """Returns the lines of a file; none while it does not exist."""
    return path.read_text().splitlines() if path.exists() else []
