"""A small in-memory API server for unit tests: versions, conflicts, lists in pages, watches that can be scripted."""

import asyncio
import copy
from collections.abc import AsyncGenerator
from typing import Any

from workers import errors
from workers.api.kinds import Kind, Object, Ref, ref_of
from workers.client.rest import WatchEvent
from workers.client.transport import IdleWait


class FakeCluster:
    """Objects by key and the log of what happened to them, as the informer and the election see a cluster.

    down: every call fails while it is set. forgotten: watches from versions up to this one answer 410.
    page: objects per page of a list.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.log: list[tuple[int, Kind, WatchEvent]] = []
        self.version = 100
        self.down = False
        self.forgotten = 0
        self.page = 2
        self.lists = 0
        self.watches: list[str] = []
        self._break = 0
        self._changed = asyncio.Event()

    # What tests do

    def put(self, kind: Kind, body: Object) -> Object:
        """Creates or changes an object behind everybody's back."""
        body = copy.deepcopy(body)
        type_ = "MODIFIED" if ref_of(kind, body).key in self.objects else "ADDED"
        return self._happen(kind, type_, body)

    def remove(self, ref: Ref) -> None:
        """Deletes an object behind everybody's back."""
        self._happen(ref.kind, "DELETED", copy.deepcopy(self.objects[ref.key]))

    def bookmark(self, kind: Kind) -> None:
        """Tells watchers how far they are."""
        self._happen(kind, "BOOKMARK", {"metadata": {}})

    def disconnect(self) -> None:
        """Breaks every open watch."""
        self._break += 1
        self._wake()

    # What the code under test does

    async def get(self, ref: Ref) -> Object:
        await self._called()
        if ref.key not in self.objects:
            raise errors.NotFound(f"{ref}", status=404)
        return copy.deepcopy(self.objects[ref.key])

    async def create(self, kind: Kind, body: Object) -> Object:
        await self._called()
        if ref_of(kind, body).key in self.objects:
            raise errors.AlreadyExists(f"{ref_of(kind, body)}", status=409)
        return copy.deepcopy(self.put(kind, body))

    async def replace(self, ref: Ref, body: Object) -> Object:
        await self._called()
        current = self.objects.get(ref.key)
        if current is None:
            raise errors.NotFound(f"{ref}", status=404)
        if body["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise errors.Conflict(f"{ref}", status=409)
        return copy.deepcopy(self.put(ref.kind, body))

    async def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> AsyncGenerator[tuple[list[Object], str], None]:
        await self._called()
        if limit > 1:
            self.lists += 1
        version = str(self.version)
        found = [
            copy.deepcopy(body)
            for key, body in sorted(self.objects.items())
            if key.startswith(f"{kind.id}/{namespace}/" if namespace else f"{kind.id}/")
        ]
        for first in range(0, max(len(found), 1), self.page):
            await self._called()
            yield found[first : first + self.page], version

    async def follow(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        timeout: float,
        idle: IdleWait | None = None,
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        await self._called()
        self.watches.append(resource_version)
        at, breaks, waits = int(resource_version), self._break, idle or IdleWait(1.0)
        if at <= self.forgotten:
            raise errors.Gone("too old resource version", status=410)
        while True:
            if self._break != breaks:
                raise errors.Unavailable("the connection broke")
            if burst := self._since(kind, namespace, at):
                at = max(version for version, _ in burst)
                yield tuple(copy.deepcopy(event) for _, event in burst)
            yield ()
            changed = self._changed
            try:
                async with waits.timeout():
                    await changed.wait()
            except TimeoutError:
                continue

    def _since(self, kind: Kind, namespace: str, at: int) -> list[tuple[int, WatchEvent]]:
        def meant(event: WatchEvent) -> bool:
            return not namespace or event.object["metadata"].get("namespace", namespace) == namespace

        return [(version, event) for version, of, event in self.log if version > at and of == kind and meant(event)]

    def _happen(self, kind: Kind, type_: str, body: dict[str, Any]) -> Object:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        if type_ != "BOOKMARK":
            key = ref_of(kind, body).key
            body["metadata"].setdefault("uid", f"uid-{self.version}")
            if type_ == "DELETED":
                del self.objects[key]
            else:
                self.objects[key] = body
        self.log.append((self.version, kind, WatchEvent(type_, body)))
        self._wake()
        return body

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _called(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise errors.Unavailable("no server listens")
