"""The REST mapper: finds the resource of an apiVersion and kind by discovery, with a cache."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from workers.api.kinds import Kind
from workers.errors import NotFound


class ClusterRequest(Protocol):
    """`workers.client.rest.Cluster.request`."""

    def __call__(self, method: str, path: str) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind that the API server serves. scalable: it has a scale subresource."""

    kind: Kind
    scalable: bool


class RESTMapper:
    """The mapper of one API server.

    seconds: life of a cached answer. Missing kinds are not cached: their definition may be created at any moment.
    """

    def __init__(
        self, request: ClusterRequest, *, seconds: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._request = request
        self._seconds = seconds
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, ServedKind]] = {}

    async def find(self, api_version: str, kind: str) -> ServedKind | None:
        """Returns the resource, or None if the API server does not serve it. Raises `errors.ClusterError`."""
        key = (api_version, kind)
        if (known := self._known.get(key)) and self._clock() - known[0] < self._seconds:
            return known[1]
        found = await self._ask(api_version, kind)
        if found is None or not found.scalable:
            self._known.pop(key, None)
        else:
            self._known[key] = (self._clock(), found)
        return found

    async def _ask(self, api_version: str, kind: str) -> ServedKind | None:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self._request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
        except NotFound:
            return None
        entries = answer.get("resources") or ()
        names = {entry["name"] for entry in entries}
        for entry in entries:
            if entry["kind"] == kind and "/" not in entry["name"]:
                served = Kind(group, version, kind, entry["name"], bool(entry.get("namespaced")))
                return ServedKind(served, f"{entry['name']}/scale" in names)
        return None
