"""The broadcast: one text for all watchers, bounded queues, and what a watcher that comes back has missed."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from deploy.page.live import broadcast as module
from deploy.page.live.broadcast import LINGER, Broadcast, UpdateWatcher
from tests.support.tables import for_each


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def parsed(text: bytes) -> list[tuple[str, str, object]]:
    """Id, type and data of each message."""
    found = []
    for block in text.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields["id"], fields["event"], orjson.loads(fields["data"])))
    return found


async def read(watcher: UpdateWatcher) -> list[tuple[str, str, object]]:
    texts: AsyncIterator[bytes] = watcher.texts()
    return parsed(await anext(texts))


def data(found: list[tuple[str, str, object]]) -> list[object]:
    return [each for _, _, each in found]


async def test_watchers_get_their_topics_and_share_one_text() -> None:
    broadcast = Broadcast()
    one, two = broadcast.open(frozenset({"a", "b"})), broadcast.open(frozenset({"b"}))
    broadcast.publish(("a",), "row", b'"first"')
    broadcast.publish(("b", "c"), "row", b'"second"')
    assert one._unread[-1] is two._unread[-1]
    assert data(await read(one)) == [{"resumed": False}, "first", "second"]
    assert data(await read(two)) == [{"resumed": False}, "second"]
    broadcast.close(one)
    broadcast.close(two)
    assert not broadcast.topics


async def test_a_watcher_that_comes_back_gets_what_it_missed() -> None:
    broadcast = Broadcast()
    watcher = broadcast.open(frozenset({"a"}))
    broadcast.publish(("a",), "row", b"1")
    last = (await read(watcher))[-1][0]
    broadcast.close(watcher)
    broadcast.publish(("a",), "row", b"2")
    broadcast.publish(("b",), "row", b"3")
    assert data(await read(broadcast.open(frozenset({"a"}), last))) == [{"resumed": True}, 2]


@for_each("", "0-0", "other-1", "x", "-1", "9" * 30)
async def test_an_id_that_this_process_did_not_give_resumes_nothing(last: str) -> None:
    broadcast = Broadcast()
    broadcast.publish(("a",), "row", b"1")
    assert data(await read(broadcast.open(frozenset({"a"}), last))) == [{"resumed": False}]


async def test_nothing_is_kept_while_nobody_watches() -> None:
    time = Time()
    broadcast = Broadcast(time)
    watcher = broadcast.open(frozenset({"a"}))
    broadcast.publish(("a",), "row", b"1")
    last = (await read(watcher))[-1][0]
    broadcast.close(watcher)
    assert broadcast.watched
    time.now += LINGER + 1
    assert not broadcast.watched
    broadcast.publish(("a",), "row", b"2")
    assert data(await read(broadcast.open(frozenset({"a"}), last))) == [{"resumed": False}]


async def test_too_long_ago_means_to_read_everything_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MESSAGES", 2)
    broadcast = Broadcast()
    watcher = broadcast.open(frozenset({"a"}))
    first = (await read(watcher))[0][0]
    for number in range(3):
        broadcast.publish(("a",), "row", str(number).encode())
    ids = [id for id, _, _ in await read(watcher)]
    assert data(await read(broadcast.open(frozenset({"a"}), first))) == [{"resumed": False}]
    assert data(await read(broadcast.open(frozenset({"a"}), ids[0]))) == [{"resumed": True}, 1, 2]


async def test_a_watcher_that_never_reads_holds_bounded_memory_and_is_told_to_begin_anew() -> None:
    broadcast = Broadcast()
    watcher = broadcast.open(frozenset({"a"}))
    text = b'"' + b"x" * 1000 + b'"'
    for _ in range(20_000):
        broadcast.publish(("a",), "row", text)
        assert watcher._bytes <= module.BYTES
    assert sum(map(len, watcher._unread)) == watcher._bytes
    assert sum(len(message.text) for message in broadcast._kept) <= module.KEPT_BYTES
    found = data(await read(watcher))
    assert found[0] == {"resumed": False}
    assert len(found) <= module.MESSAGES


async def test_silence_is_broken_by_comments_and_the_end_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT", 0.01)
    broadcast = Broadcast()
    watcher = broadcast.open(frozenset({"a"}))
    texts = [text async for text in _until_ended(broadcast, watcher)]
    assert texts[0].startswith(b"id: ")
    assert texts[1] == b": heartbeat\n\n"


async def _until_ended(broadcast: Broadcast, watcher: UpdateWatcher) -> AsyncIterator[bytes]:
    async with asyncio.timeout(10):
        async for text in watcher.texts():
            yield text
            if text.startswith(b":"):
                broadcast.end()
