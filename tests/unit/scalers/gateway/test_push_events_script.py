"""The script that accepts events over HTTP, on an in-memory server and on a real one."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis.asyncio as redis

from scalers.gateway.auth.pusher import SignatureProof
from scalers.gateway.destinations import Channel
from scalers.gateway.group_commit import GroupCommit
from scalers.gateway.problem import RequestRefused
from scalers.gateway.push_request import ChannelLimits
from scalers.sources.events.intake import Intake
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.tables import for_each
from workers.api.penstock_dev.push_settings import PushSettings

KEYS = Keys("test")
STREAM = "{test}:events:team/orders"
TAKER = "eventjobs.penstock.dev/team/orders"
CHANNEL = Channel(STREAM, ChannelLimits(events=4), takers=(TAKER,))
SETTINGS = PushSettings()


def event(id: str, **more: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "placed", **more}


class CommitRig:
    """A group commit on one broker."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.poll = Lane(client, "poll", KEYS)
        self.notified: list[dict[str, int]] = []
        self.commit = GroupCommit(client, self.poll, self.notify)

    async def notify(self, notifications: dict[str, int]) -> None:
        self.notified.append(notifications)

    async def push(self, *ids: str, channel: Channel = CHANNEL, settings: PushSettings = SETTINGS) -> list[bool]:
        """Returns of each event whether it was new."""
        accepted = await self.commit.push(channel, settings, [event(id) for id in ids])
        return [not one.duplicate for one in accepted]

    async def accepted(self) -> list[str]:
        return [fields[b"id"].decode() for _, fields in await self.client.xrange(f"{STREAM}:accepted")]


@pytest.fixture
async def rig(client: redis.Redis) -> AsyncIterator[CommitRig]:
    rig = CommitRig(client)
    await rig.poll.open()
    yield rig
    await rig.commit.close()


async def test_new_events_are_accepted_and_counted_and_their_takers_marked(rig: CommitRig) -> None:
    assert await rig.push("1", "2") == [True, True]
    assert await rig.push("2", "3") == [False, True]
    assert await rig.accepted() == ["1", "2", "3"]
    assert await rig.client.hgetall(f"{STREAM}:counts") == {b"accepted": b"3", b"duplicates": b"1"}
    assert [lease.key for lease in (await rig.poll.claim(10)).leases] == [TAKER]
    assert await rig.push("1", "3") == [False, False]
    assert (await rig.poll.stats()).dirty == 0
    await rig.commit.close()
    assert rig.notified == [{"poll": 1}]


async def test_an_entry_is_the_event_as_any_client_pushes_it(rig: CommitRig) -> None:
    [one] = await rig.commit.push(CHANNEL, SETTINGS, [event("1", data='{"ä": 1}', ext="€")])
    [(entry, fields)] = await rig.client.xrange(f"{STREAM}:accepted")
    assert one.entry == entry.decode()
    assert {name.decode(): text.decode() for name, text in fields.items()} == event("1", data='{"ä": 1}', ext="€")
    digest = hashlib.sha1(b"/shop\n1").hexdigest()
    assert await rig.client.zrange(f"{STREAM}:seen", 0, -1) == [digest.encode()]
    assert 0 < await rig.client.pttl(f"{STREAM}:seen") <= 3_600_000


async def test_a_signed_event_is_remembered_beside_its_channel(rig: CommitRig) -> None:
    await rig.commit.push(CHANNEL, SETTINGS, [event("1")], SignatureProof("digest", 600))
    [(member, until)] = await rig.client.zrange(f"{STREAM}:signed", 0, -1, withscores=True)
    assert member == b"digest" + hashlib.sha1(b"/shop\n1").hexdigest().encode()
    assert 0 < await rig.client.pttl(f"{STREAM}:signed") <= 600_000 < until
    assert [lease.key for lease in (await rig.poll.claim(10)).leases] == [TAKER]


async def test_a_request_without_room_changes_nothing(rig: CommitRig) -> None:
    await rig.push("1", "2", "3")
    with pytest.raises(RequestRefused) as caught:
        await rig.push("4", "5")
    assert caught.value.problem.status == 429
    assert int(caught.value.problem.headers["Retry-After"]) > 0
    assert await rig.accepted() == ["1", "2", "3"]
    assert await rig.push("1", "4") == [False, True], "duplicates need no room"
    assert await rig.push("1", "2", "3", "4") == [False] * 4
    with pytest.raises(RequestRefused):
        await rig.push("5")


async def test_a_request_that_never_has_room_is_too_large(rig: CommitRig) -> None:
    """A sender that waits as 429 says would wait for ever."""
    await rig.push("0", "1")
    with pytest.raises(RequestRefused, match="5 new events, and 4 may be") as caught:
        await rig.push("0", "5", "6", "7", "8", "9")
    assert caught.value.problem.status == 413
    assert await rig.accepted() == ["0", "1"]
    with pytest.raises(RequestRefused) as caught:
        await rig.push("0", "5", "6", "7", "8")
    assert caught.value.problem.status == 429


async def test_an_event_that_is_twice_in_a_batch_needs_room_once(rig: CommitRig) -> None:
    await rig.push("1", "2", "3")
    assert await rig.push("4", "4", "4") == [True, False, False]


@for_each(({"a": 3}, True), ({"a": 4}, False), ({"a": 2, "b": 4}, False))
async def test_unfinished_deliveries_of_the_slowest_event_job_count(
    unfinished: dict[str, int], fits: bool, rig: CommitRig
) -> None:
    await rig.client.hset(f"{STREAM}:unfinished", mapping=unfinished)
    if fits:
        assert await rig.push("1") == [True]
        return
    with pytest.raises(RequestRefused):
        await rig.push("1")


async def test_entries_of_other_clients_that_wait_in_the_intake_count(rig: CommitRig) -> None:
    for id in range(4):
        await rig.client.xadd(STREAM, event(f"x{id}"))
    with pytest.raises(RequestRefused):
        await rig.push("1")


async def test_what_a_group_of_jobs_has_taken_counts_until_it_is_acknowledged(rig: CommitRig) -> None:
    channel = replace(CHANNEL, group="penstock")
    await rig.push("1", "2", "3", "4", channel=channel)
    taken = await rig.client.xreadgroup("penstock", "job", {f"{STREAM}:accepted": ">"}, count=4)
    with pytest.raises(RequestRefused):
        await rig.push("5", channel=channel)
    [(_, entries)] = taken
    await rig.client.xack(f"{STREAM}:accepted", "penstock", entries[0][0])
    assert await rig.push("5", channel=channel) == [True]


@for_each(ChannelLimits(window=0), ChannelLimits(remembered=0))
async def test_without_remembering_every_event_is_new(limits: ChannelLimits, rig: CommitRig) -> None:
    channel = replace(CHANNEL, limits=limits)
    assert await rig.push("1", "1", channel=channel) == [True, True]
    assert await rig.push("1", channel=channel) == [True]
    assert not await rig.client.exists(f"{STREAM}:seen")


async def test_the_newest_ids_are_remembered(rig: CommitRig) -> None:
    channel = replace(CHANNEL, limits=ChannelLimits(remembered=2))
    for id in ("1", "2", "3"):
        await rig.push(id, channel=channel)
    assert await rig.client.zcard(f"{STREAM}:seen") == 2


async def test_an_event_is_a_duplicate_however_it_came_first(real_redis: redis.Redis) -> None:
    rig = CommitRig(real_redis)
    await rig.push("1")
    await rig.client.xadd(STREAM, event("1"))
    await rig.client.xadd(STREAM, event("2"))
    intake = Intake(STREAM, "penstock", 10, 3_600_000, 100, 10, held=True)
    await rig.client.execute_command(*intake.acceptance)
    assert await rig.accepted() == ["1", "2"]
    assert await rig.push("2", "3") == [False, True]
