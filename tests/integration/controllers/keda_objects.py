"""An object of KEDA's kinds on the running cluster, with the Redis list that it is scaled by."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio as redis

from tests.support.conditions import eventually
from tests.support.house import House, Houses, house
from workers.api import conditions
from workers.api.kinds import EVENT, JOB, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

#: Seconds that all processes on a busy machine may take for anything.
LONG = 90.0
#: Seconds, longer than any test: what happens did not wait for a poll.
NEVER = 3600

_numbers = itertools.count(1)


#: Of a module with `running_on_both`: the test needs what the embedded cluster has beside an API server.
EMBEDDED_ONLY = pytest.mark.parametrize("running", ["embedded"], indirect=True, scope="module")


def running_on_both(settings: Mapping[str, str]) -> Any:
    """Returns the fixture `running` of a module: everything on the embedded API server, then on a real one."""

    @pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
    def running(
        request: pytest.FixtureRequest, houses: Houses, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[House]:
        if request.param == "real":
            with house("real", tmp_path_factory.mktemp("real"), **settings) as found:
                yield found
            return
        yield houses.with_settings(settings)
        houses.clear()

    return running


def manifest(ref: Ref, spec: Object | None = None, *, metadata: Object | None = None, **rest: Any) -> Object:
    """Returns a manifest of this name, without a spec if there is none."""
    place = {"namespace": ref.namespace, "name": ref.name} if ref.namespace else {"name": ref.name}
    body = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": {**place, **(metadata or {})}}
    return {**body, **({"spec": spec} if spec is not None else {}), **rest}


def job_template(*command: str, **pod: Any) -> Object:
    """Returns a `jobTargetRef` whose pod runs the command once."""
    container = {"name": "main", "image": "none", "command": [*command]}
    return {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}}


async def remove(cluster: Cluster, ref: Ref) -> None:
    """Deletes an object if it is there, and waits until it is gone."""

    async def gone() -> bool:
        try:
            await cluster.delete(ref)
        except NotFound:
            return True
        return False

    await eventually(gone, LONG)


@asynccontextmanager
async def unfinished_jobs(cluster: Cluster, selector: str) -> AsyncIterator[list[int]]:
    """Yields the number of unfinished Jobs with these labels at every resourceVersion from now on."""
    there, version = await cluster.list(JOB, "default", label_selector=selector)
    assert not there
    counts: list[int] = []

    async def count() -> None:
        unfinished: set[str] = set()
        events = cluster.watch(JOB, "default", resource_version=version, label_selector=selector, timeout=LONG * 3)
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            name = event.object["metadata"]["name"]
            if event.type == "DELETED" or conditions.finished(event.object):
                unfinished.discard(name)
            else:
                unfinished.add(name)
            counts.append(len(unfinished))

    follower = asyncio.create_task(count())
    try:
        yield counts
    finally:
        assert not follower.done(), "the watch ended early"
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)


class KedaObject:
    """One object, its list on a server at this port, and what became of both."""

    def __init__(self, cluster: Cluster, port: int, kind: Kind, prefix: str = "work") -> None:
        self.cluster, self.port = cluster, port
        self.name = f"{prefix}-{next(_numbers)}"
        self.ref = Ref(kind, "default", self.name)

    async def create(self, spec: Object, **metadata: Any) -> None:
        await self.cluster.create(self.ref.kind, manifest(self.ref, spec, metadata=metadata))

    async def patch(self, body: Object) -> Object:
        return await self.cluster.patch(self.ref, body)

    async def annotate(self, **annotations: str | None) -> None:
        """Sets KEDA's annotations by their names after the prefix, `_` for `-`; None removes one."""
        changed = {f"autoscaling.keda.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self.patch({"metadata": {"annotations": changed}})

    def trigger(self, **metadata: str) -> Object:
        """Returns a trigger on the list: one Job or replica per item."""
        address = f"127.0.0.1:{self.port}"
        return {"type": "redis", "metadata": {"address": address, "listName": self.name, "listLength": "1", **metadata}}

    async def ask(self, command: str, *words: Any) -> None:
        """Sends one command about the list."""
        async with redis.Redis(port=self.port) as client:
            await client.execute_command(command, self.name, *words)

    async def push(self, items: int) -> None:
        await self.ask("RPUSH", *range(items))

    async def body(self) -> Object:
        return await self.cluster.get(self.ref)

    async def status(self) -> Object:
        return (await self.body()).get("status") or {}

    async def jobs(self) -> list[Object]:
        selector = f"scaledjob.keda.sh/name={self.name}"
        return (await self.cluster.list(JOB, "default", label_selector=selector))[0]

    async def has_jobs(self, number: int) -> None:
        """Waits for so many Jobs."""

        async def there() -> bool:
            return len(await self.jobs()) >= number

        await eventually(there, LONG)
        assert len(await self.jobs()) == number

    async def becomes(self, type_: str, status: str, reason: str | None = None) -> str:
        """Waits for a condition, of any reason if none is given; returns its message."""
        known: Object = {}

        async def so() -> bool:
            nonlocal known
            known = conditions.find(await self.body(), type_) or {}
            return known.get("status") == status and reason in (None, known.get("reason"))

        await eventually(so, LONG)
        return str(known.get("message", ""))

    async def events(self) -> list[Object]:
        return (await self.cluster.list(EVENT, "default", field_selector=f"involvedObject.name={self.name}"))[0]

    async def has_told(self, *reasons: str, **fields: str) -> None:
        """Waits for Events of these reasons. fields: what each of these Events must say besides."""

        async def there() -> bool:
            events = [event for event in await self.events() if fields.items() <= event.items()]
            return {*reasons} <= {event["reason"] for event in events}

        await eventually(there, LONG)

    async def is_gone(self) -> bool:
        try:
            await self.body()
        except NotFound:
            return True
        return False

    async def remove(self) -> None:
        """Deletes the object if it is there, and waits until it is gone."""
        await remove(self.cluster, self.ref)
