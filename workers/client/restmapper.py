"""Which resource a manifest's apiVersion and kind stand for, asked of the API server and remembered for a while."""

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
    """A kind the API server serves. scalable: it has a scale subresource."""

    kind: Kind
    scalable: bool


class RESTMapper:
    """Asks an API server what it serves.

    seconds: how long an answer is used. What does not exist is asked for each time: it may come at any moment.
    """

    def __init__(
        self, request: ClusterRequest, *, seconds: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._request = request
        self._seconds = seconds
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, ServedKind]] = {}

    async def find(self, api_version: str, kind: str) -> ServedKind | None:
        """The resource, or None where the API server does not serve it. Raises `errors.ClusterError`."""
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
