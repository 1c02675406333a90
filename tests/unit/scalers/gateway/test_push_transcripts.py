"""Transcripts of pushed events: what the scripts answer and write for each group commit and each acceptance."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from scalers.sources.events.intake import ACCEPT, Intake
from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Script, load
from tests.support.keyspaces import KeyspaceTranscript

PUSH = Script(load("scalers", "push_events"))
STREAM = "{test}:events:team/orders"
PARTS = ("accepted", "seen", "counts", "unfinished", "signed")
POLL = Keys("test").lane("poll")
TAKERS = tuple(f"eventjobs.penstock.dev/team/{name}" for name in ("orders", "audit"))


def event(id: str, **more: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "placed", **more}


class ToldIntake:
    """One intake, whose scripts are called directly. limits: most events, milliseconds and number of those seen."""

    def __init__(self, client: Redis) -> None:
        self.client: Any = client
        self.limits = (4, 3_600_000, 100)
        self.group = ""
        self.takers = TAKERS
        self.lane = tuple(POLL.all())
        self.transcript = KeyspaceTranscript(
            Path(__file__).parent / "transcripts",
            client,
            None,
            "{test}:lane:",
            "{test}:events:team/",
            "eventjobs.penstock.dev/team/",
        )

    async def push(self, *requests: list[dict[str, str]], signature: str = "", milliseconds: int = 0) -> None:
        keys = [STREAM, *(f"{STREAM}:{part}" for part in PARTS), *self.lane]
        arguments: list[Any] = [self.group, *self.limits, 5, len(self.takers), *self.takers, len(requests)]
        for events in requests:
            arguments += (signature, milliseconds, len(events))
            for each in events:
                digest = hashlib.sha1(f"{each['source']}\n{each['id']}".encode(), usedforsecurity=False).hexdigest()
                arguments += (digest, 2 * len(each), *(text for pair in each.items() for text in pair))
        ids = " ".join("+".join(each["id"] for each in events) for events in requests)
        await self.transcript.after(f"push {ids} {signature}".strip(), await PUSH(self.client, keys, arguments))

    async def accept(self, *, parked: int = 3) -> None:
        room, window, remembered = self.limits
        intake = Intake(STREAM, self.group, room, window, remembered, parked, True)
        await self.transcript.after("accept", await ACCEPT(self.client, intake.keys, intake.arguments))

    async def add(self, *entries: dict[str, str]) -> None:
        """Adds entries to the intake, as any client may."""
        for each in entries:
            await self.client.xadd(STREAM, each)
        await self.transcript.look()


@pytest.fixture
async def intake(real_redis: Redis) -> ToldIntake:
    await Lane(real_redis, "poll", Keys("test")).open()
    intake = ToldIntake(real_redis)
    await intake.transcript.look()
    return intake


async def test_requests_of_one_commit(intake: ToldIntake) -> None:
    await intake.push([event("1"), event("2", data="x")], [event("2"), event("3")])
    intake.transcript.note("there is room for one: a request is taken whole or not at all, and duplicates need none")
    await intake.push([event("4"), event("5")], [event("1"), event("4")], [event("6")])
    intake.transcript.note("the slowest EventJob, and what waits in the intake, count")
    await intake.client.hset(f"{STREAM}:unfinished", mapping={"u1": 2, "u2": 1})
    await intake.client.xtrim(f"{STREAM}:accepted", maxlen=0)
    await intake.add(event("7"))
    await intake.push([event("8"), event("9")], [event("8")])
    intake.transcript.note("nobody takes them, and nothing is remembered")
    intake.takers, intake.limits = (), (99, 0, 0)
    await intake.push([event("1"), event("1")])
    intake.transcript.note("one is remembered")
    intake.limits = (99, 3_600_000, 1)
    await intake.push([event("10"), event("11")])
    await intake.push([event("10")], [event("11")])
    intake.limits = (99, 0, 0)
    intake.transcript.note("a broker that has no lane of ours")
    intake.lane = ()
    await intake.push([event("1")])
    assert intake.transcript.text == intake.transcript.expected("commits")


async def test_requests_that_are_signed(intake: ToldIntake) -> None:
    await intake.push([event("1")], signature="proof", milliseconds=600_000)
    await intake.push([event("1"), event("2")], signature="proof", milliseconds=900_000)
    intake.transcript.note("a channel that remembers none still knows the signature")
    intake.limits = (9, 0, 0)
    await intake.push([event("1"), event("3"), event("3")], signature="proof", milliseconds=600_000)
    await intake.push([event("1")], signature="other", milliseconds=600_000)
    assert intake.transcript.text == intake.transcript.expected("signed")


async def test_events_of_a_group_of_jobs(intake: ToldIntake) -> None:
    intake.group = "penstock"
    await intake.push([event("1"), event("2")])
    await intake.client.xreadgroup("penstock", "job", {f"{STREAM}:accepted": ">"}, count=1)
    await intake.push([event("3"), event("4")], [event("5")])
    await intake.add(event("6"), event("1"))
    await intake.accept()
    intake.limits = (9, 3_600_000, 2)
    await intake.add(event("7"), event("8"))
    await intake.accept()
    assert intake.transcript.text == intake.transcript.expected("group")


async def test_entries_that_are_no_events(intake: ToldIntake) -> None:
    await intake.add(
        *({name: "x"} for name in ("", "id", "Id", "data_base65")),
        event("1", source="no reference"),
        event("1", time="noon"),
        event("1", time="2026-01-01T00:00:00.5+25:00"),
        event("2", subject=""),
        event("2", dataschema="relative"),
        event("2", datacontenttype="json"),
        event("2", data="x", data_base64="eA=="),
        event("2", data_base64="eA="),
        event("2", specversion="0.3"),
        event("2", type="a\nb"),
    )
    await intake.accept(parked=99)
    await intake.add(event("1", time="2026-01-01T00:00:00.5+01:30"), event("2", data="a\nb"))
    await intake.accept(parked=99)
    await intake.add({"n": "x" * 9}, {"n": "y"})
    await intake.accept(parked=1)
    assert intake.transcript.text == intake.transcript.expected("parked")


async def test_a_server_without_memory_takes_nothing_in(intake: ToldIntake) -> None:
    await intake.push([event("1")])
    await intake.add(event("2"))
    await intake.client.config_set("maxmemory", "1")
    try:
        with pytest.raises(OutOfMemoryError):
            await intake.push([event("3")])
        await intake.accept()
    finally:
        await intake.client.config_set("maxmemory", "0")
    await intake.accept()
    assert intake.transcript.text == intake.transcript.expected("memory")
