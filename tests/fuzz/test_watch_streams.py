"""Watches that tell anything but the truth: whatever they said, the store ends equal to a fresh list."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import fakeredis
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.servers import behaving
from tests.unit.workers.objects import job
from workers.api.kinds import JOB, Object
from workers.cache.reflector import Pace, Reflector
from workers.cache.store import Store
from workers.client.kubeconfig import ApiAccess
from workers.client.rest import Cluster

FEW = settings(max_examples=(settings.default.max_examples if settings.default else 100) // 4)
QUICK = Pace(relist=0.1, watch=5, beat=0.01, probe=0.05, base=0.01, cap=0.03)
NAMES = ("a", "b", "c")
#: Seconds until the store must be equal.
PATIENCE = 20.0

STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("put", "put", "remove"))), min_size=1, max_size=8)
LIES = st.sampled_from(
    [
        *("twice", "backwards", "truncated", "garbage", "old", "added", "unknown", "bookmark", "early bookmark"),
        *("gone", "odd", "odd metadata", "silent", "other kind", "blank", "no list"),
    ]
)
Event = tuple[int, str, Object]


class LyingServer:
    """An API server with a history of Jobs, whose first watches tell lies. lies: one list for each watch."""

    def __init__(self, steps: list[tuple[str, str]], lies: list[list[str]]) -> None:
        self.version = 10
        self.live: dict[str, Object] = {}
        self.events: list[Event] = []
        self._steps = list(steps)
        self._lies = list(lies)

    @property
    def is_honest(self) -> bool:
        """Whether nothing happens any more and no lie is left."""
        return not self._steps and not self._lies

    def step(self) -> None:
        """Lets the next thing happen."""
        if not self._steps:
            return
        name, what = self._steps.pop(0)
        self.version += 1
        known = self.live.get(name)
        if what == "put":
            uid = known["metadata"]["uid"] if known else f"uid-{name}-{self.version}"
            self.live[name] = job(name, self.version, uid=uid)
            self.events.append((self.version, "MODIFIED" if known else "ADDED", self.live[name]))
        elif known:
            del self.live[name]
            self.events.append((self.version, "DELETED", job(name, self.version, uid=known["metadata"]["uid"])))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        if "watch" not in query:
            items = [self.live[name] for name in sorted(self.live)]
            writer.write(orjson.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items}))
            return
        after, lies = int(query["resourceVersion"]), self._lies.pop(0) if self._lies else []
        for lie in lies:
            self.step()
            self.step()
            news = [event for event in self.events if event[0] > after]
            after = max([after, *(version for version, _, _ in news)])
            writer.write(b"".join(self._told(news, lie, after)))
            await writer.drain()
            await asyncio.sleep(0.005)
        while not lies:
            self.step()
            news = [event for event in self.events if event[0] > after]
            after = max([after, *(version for version, _, _ in news)])
            writer.write(b"".join(map(_line, news)))
            await writer.drain()
            await asyncio.sleep(0.01)

    def _told(self, news: list[Event], lie: str, now: int) -> list[bytes]:
        lines = [_line(event) for event in news]
        ghost = job("ghost", now, uid="uid-ghost")
        match lie:
            case "twice":
                return [*lines, *lines]
            case "backwards":
                return lines[::-1]
            case "truncated":
                return [*lines[:-1], *(line[: len(line) // 2] for line in lines[-1:])]
            case "garbage":
                return [*lines, b'\x00\xff{"type":\n']
            case "old":
                return [*lines, *map(_line, self.events[:3])]
            case "added":
                return [_line((version, "ADDED", body)) for version, _, body in [*news, *self.events[-1:]]]
            case "unknown":
                return [*lines, _line((now, "DELETED", ghost))]
            case "bookmark":
                return [*lines, _line((now, "BOOKMARK", {"metadata": {"resourceVersion": str(now)}}))]
            case "early bookmark":
                # The server forgets what it should have said before.
                return [_line((now, "BOOKMARK", {"metadata": {"resourceVersion": str(now)}})), *lines]
            case "gone":
                return [*lines, _line((now, "ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))]
            case "odd":
                return [*lines, b"[]\n", b"null\n", b'{"type":"ADDED","object":5}\n', b'{"type":7,"object":{}}\n']
            case "odd metadata":
                odd: list[Any] = [None, {"name": 5}, {"name": "a", "uid": "u", "resourceVersion": "x"}, {"uid": []}]
                return [*lines, *(_line((now, "MODIFIED", {"metadata": metadata})) for metadata in odd)]
            case "silent":
                return []
            case "other kind":
                return [*lines, _line((now, "WONDERED", {"kind": "Pod", "metadata": {"resourceVersion": str(now)}}))]
            case "blank":
                return [b"\n\n", *lines, b"\r\n"]
            case _:
                return [b"<html>"]


def _line(event: Event) -> bytes:
    _, type_, body = event
    return orjson.dumps({"type": type_, "object": body}) + b"\n"


async def _mirrored(store: Store) -> dict[str, str]:
    return {entry.ref.name: entry.body["metadata"]["resourceVersion"] async for entry in store.scan(JOB) if entry.body}


async def _converges(server: LyingServer) -> None:
    async with (
        fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client,
        behaving(server.serve) as port,
        Cluster(ApiAccess(f"http://127.0.0.1:{port}"), timeout=5, in_flight=4) as cluster,
    ):
        store = Store(client, Keys("test"), {JOB.id: (Lane(client, "reconcile", Keys("test")),)})

        async def notify(_notifications: object) -> None: ...

        task = asyncio.create_task(Reflector(cluster, store, JOB, notify, pace=QUICK).run(1))
        try:
            async with asyncio.timeout(PATIENCE):
                while not (server.is_honest and await _mirrored(store) == _listed(server)):
                    assert not task.done(), task
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError((await _mirrored(store), _listed(server), server.is_honest)) from None
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _listed(server: LyingServer) -> dict[str, str]:
    return {name: body["metadata"]["resourceVersion"] for name, body in server.live.items()}


@FEW
@given(STEPS, st.lists(st.lists(LIES, min_size=1, max_size=3), max_size=4))
def test_whatever_watches_tell_the_store_ends_equal_to_a_fresh_list(
    steps: list[tuple[str, str]], lies: list[list[str]]
) -> None:
    asyncio.run(_converges(LyingServer(steps, lies)))
