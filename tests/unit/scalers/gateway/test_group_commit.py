"""Group commit against a server that answers as tests say: what is known is what senders are told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis import exceptions

from scalers.gateway.destinations import Channel
from scalers.gateway.group_commit import GroupCommit
from scalers.gateway.problem import RequestRefused
from scalers.gateway.push_request import ChannelLimits
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.tables import for_each
from workers.api.penstock_dev.push_settings import PushSettings

CHANNEL = Channel("{test}:events:team/orders", ChannelLimits())
OTHER = Channel("{test}:events:team/other", ChannelLimits())
MEMORY = PushSettings()
FSYNC = PushSettings(durability="fsync")
REPLICAS = PushSettings(replicas=2)


def event(id: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id, "source": "/s", "type": "t"}


class AnsweringServer:
    """Records round trips. waits: answers of WAITAOF and WAIT. broken: raised instead of an answer.

    going: nothing is answered while it is not set. odd: the next answer lacks the outcomes.
    """

    def __init__(self) -> None:
        self.trips: list[list[str]] = []
        self.waits: dict[str, Any] = {"WAITAOF": [1, 0], "WAIT": 2}
        self.broken: Exception | None = None
        self.known = True
        self.odd = False
        self.refused: Exception | None = None
        self.going = asyncio.Event()
        self.going.set()

    @property
    def connection_pool(self) -> "AnsweringServer":
        return self

    async def get_connection(self) -> "_Connection":
        return _Connection(self)

    async def release(self, _: "_Connection") -> None:
        """Takes a connection back."""

    async def parse_response(self, connection: "_Connection", _: str) -> Any:
        return await connection.read_response()

    async def script_load(self, text: str) -> None:
        assert "Purpose: adds events" in text
        self.known = True


class _Connection:
    """A connection that makes one round trip; it is not tried again."""

    def __init__(self, server: AnsweringServer) -> None:
        self.server = server
        self.retry = self
        self.unread: list[Any] = []

    async def call_with_retry(self, work: Callable[[], Awaitable[Any]], _: Any) -> Any:
        return await work()

    def pack_commands(self, calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return calls

    async def send_packed_command(self, calls: list[tuple[Any, ...]]) -> None:
        self.server.trips.append([call[0] for call in calls])
        await self.server.going.wait()
        if self.server.broken:
            raise self.server.broken
        self.unread = [self._answer(call) for call in calls]

    async def read_response(self) -> Any:
        answer = self.unread.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, call: tuple[Any, ...]) -> Any:
        if call[0] != "EVALSHA":
            return self.server.waits[call[0]]
        if not self.server.known:
            return exceptions.NoScriptError("NOSCRIPT")
        if self.server.refused:
            return self.server.refused
        if self.server.odd:
            self.server.odd = False
            return [1, 1, 0]
        # {not done, accepted, notifications, then the entries of each request}; here every event is one request.
        requests = int(call[2 + 1 + int(call[2]) + 6])
        return [1, 1, 0, *([b"1-0"] for _ in range(requests))]


@pytest.fixture
def server() -> AnsweringServer:
    return AnsweringServer()


@pytest.fixture
async def commit(server: AnsweringServer):
    async def notify(_: Any) -> None:
        raise AssertionError("nothing to notify")

    client: Any = server
    commit = GroupCommit(client, Lane(client, "poll", Keys("test")), notify)
    yield commit
    await commit.close()


async def push(commit: GroupCommit, id: str, settings: PushSettings = MEMORY, channel: Channel = CHANNEL) -> str | None:
    [one] = await commit.push(channel, settings, [event(id)])
    return one.entry


async def refusal(commit: GroupCommit, settings: PushSettings = MEMORY) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as caught:
        await push(commit, "1", settings)
    return caught.value.problem.status, caught.value.problem.detail


async def test_requests_that_wait_share_round_trips_and_scripts(commit: GroupCommit, server: AnsweringServer) -> None:
    server.going.clear()
    first = [asyncio.create_task(push(commit, f"a{number}")) for number in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    later = [asyncio.create_task(push(commit, f"b{number}")) for number in range(50)]
    later += [asyncio.create_task(push(commit, f"c{number}", channel=OTHER)) for number in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    server.going.set()
    assert set(await asyncio.gather(*first, *later)) == {"1-0"}
    assert server.trips == [["EVALSHA"], ["EVALSHA", "EVALSHA"]]


async def test_a_script_has_a_bounded_number_of_events(
    commit: GroupCommit, server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.gateway.group_commit.SCRIPT_EVENTS", 2)
    assert set(await asyncio.gather(*(push(commit, str(number)) for number in range(5)))) == {"1-0"}
    assert server.trips == [["EVALSHA"] * 3]


async def test_a_slow_disk_delays_no_request_that_does_not_ask_for_it(
    commit: GroupCommit, server: AnsweringServer
) -> None:
    server.going.clear()
    durable = asyncio.create_task(push(commit, "1", FSYNC))
    while not server.trips:
        await asyncio.sleep(0)
    plain = asyncio.create_task(push(commit, "2"))
    while len(server.trips) < 2:
        await asyncio.sleep(0)
    server.going.set()
    await asyncio.gather(durable, plain)
    assert server.trips == [["EVALSHA", "WAITAOF"], ["EVALSHA"]]


async def test_replicas_are_waited_for(commit: GroupCommit, server: AnsweringServer) -> None:
    assert await push(commit, "1", REPLICAS) == "1-0"
    assert server.trips == [["EVALSHA", "WAIT"]]


@for_each(
    (FSYNC, "WAITAOF", [0, 0], "not in its append-only file within"),
    (FSYNC, "WAITAOF", exceptions.ResponseError("ERR appendonly is off"), "cannot say"),
    (REPLICAS, "WAIT", 1, "not with 2 replicas within"),
    (PushSettings(durability="fsync", replicas=1), "WAIT", 0, "not with 1 replicas within"),
)
async def test_events_that_are_not_durable_in_time_are_not_acknowledged(
    settings: PushSettings, command: str, answer: Any, says: str, commit: GroupCommit, server: AnsweringServer
) -> None:
    server.waits[command] = answer
    status, detail = await refusal(commit, settings)
    assert status == 503
    assert says in detail
    assert "memory" in detail
    assert "again is safe" in detail


@for_each(MEMORY, FSYNC)
async def test_a_server_that_forgot_the_script_gets_it(
    settings: PushSettings, commit: GroupCommit, server: AnsweringServer
) -> None:
    server.known = False
    assert await push(commit, "1", settings) == "1-0"
    assert len(server.trips) == 2
    assert server.trips[0] == server.trips[1], "the wait for the disk follows the script on its connection"


@for_each(exceptions.ConnectionError("away"), exceptions.TimeoutError(), OSError(), TimeoutError())
async def test_without_an_answer_it_is_said_that_nothing_is_known(
    error: Exception, commit: GroupCommit, server: AnsweringServer
) -> None:
    server.broken = error
    status, detail = await refusal(commit)
    assert status == 503
    assert "may have been accepted" in detail
    server.broken = None
    assert await push(commit, "1") == "1-0"


@for_each(exceptions.OutOfMemoryError("OOM"), exceptions.ReadOnlyError("READONLY"))
async def test_a_server_that_refuses_has_accepted_nothing(
    error: Exception, commit: GroupCommit, server: AnsweringServer
) -> None:
    server.refused = error
    status, detail = await refusal(commit)
    assert status == 503
    assert "nothing of the request was accepted" in detail


async def test_after_a_defect_no_request_waits_for_ever(commit: GroupCommit, server: AnsweringServer) -> None:
    server.odd = True
    server.going.clear()
    pushes = [asyncio.create_task(refusal(commit))]
    while len(server.trips) < 1:
        await asyncio.sleep(0)
    others = [asyncio.create_task(push(commit, "2"))]
    while len(server.trips) < 2:
        await asyncio.sleep(0)
    others += [asyncio.create_task(push(commit, "3"))]
    await asyncio.sleep(0)
    server.going.set()
    async with asyncio.timeout(5):
        assert [status for status, _ in await asyncio.gather(*pushes)] == [500]
        assert await asyncio.gather(*others) == ["1-0", "1-0"]
