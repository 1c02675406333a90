"""All objects of a cluster, whatever their kinds: which are there, and how they are deleted."""

import asyncio
import time
from collections.abc import AsyncIterator, Set
from pathlib import Path
from typing import Any

from workers.client.rest import Cluster
from workers.errors import NotFound

#: Seconds until controllers and kubelet have let go of what is deleted, on a busy machine.
PATIENCE = 90.0
#: Penstock's own, and what others say about objects that may be gone.
NOT_COUNTED = frozenset({"leases", "events"})


async def paths(kubeconfig: Path) -> frozenset[str]:
    """The paths of all objects."""
    async with await Cluster.connect(kubeconfig=kubeconfig) as cluster:
        return frozenset([path async for path in _paths(cluster, await _collections(cluster))])


async def delete(kubeconfig: Path, *, keep: Set[str]) -> None:
    """Deletes all objects but these and waits until they are gone. Raises TimeoutError naming those that stay."""
    deadline = time.monotonic() + PATIENCE
    async with await Cluster.connect(kubeconfig=kubeconfig) as cluster:
        collections = await _collections(cluster)
        while found := [path async for path in _paths(cluster, collections) if path not in keep]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not gone after {PATIENCE:g} s: {', '.join(found)}")
            await asyncio.gather(*(_delete(cluster, path) for path in found))
            await asyncio.sleep(0.1)
        events = (await cluster.request("GET", "/api/v1/events"))["items"]
        for namespace in {event["metadata"]["namespace"] for event in events}:
            await cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/events")


async def _delete(cluster: Cluster, path: str) -> None:
    # Not force: a pod's process ends with it.
    grace = {"gracePeriodSeconds": 1} if "/pods/" in path else {}
    try:
        await cluster.request("DELETE", path, body={"propagationPolicy": "Background", **grace})
    except NotFound:
        return


async def _collections(cluster: Cluster) -> list[tuple[str, dict[str, Any]]]:
    """The path of each group and version, with each of its resources whose objects can be listed and deleted."""
    groups = (await cluster.request("GET", "/apis"))["groups"]
    prefixes = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    found: list[tuple[str, dict[str, Any]]] = []
    for prefix in prefixes:
        resources = (await cluster.request("GET", prefix))["resources"]
        wanted = [each for each in resources if {"list", "delete"} <= set(each["verbs"])]
        found += [(prefix, resource) for resource in wanted if resource["name"] not in NOT_COUNTED]
    return found


async def _paths(cluster: Cluster, collections: list[tuple[str, dict[str, Any]]]) -> AsyncIterator[str]:
    for prefix, resource in collections:
        try:
            bodies = (await cluster.request("GET", f"{prefix}/{resource['name']}"))["items"]
        except NotFound:
            # Its definition is one of the objects that were deleted.
            continue
        for body in bodies:
            namespace = f"/namespaces/{body['metadata']['namespace']}" if resource["namespaced"] else ""
            yield f"{prefix}{namespace}/{resource['name']}/{body['metadata']['name']}"
