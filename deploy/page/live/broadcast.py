"""The broadcast of updates to watchers as server-sent events: one encoding of a message for all of them.

Every watcher has a bounded queue. One that reads too slowly loses it and is told so; it reads afresh what it shows.
"""

import asyncio
import secrets
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass

import orjson

#: Messages and bytes that one watcher may have unread.
MESSAGES, BYTES = 2_000, 2 << 20
#: Messages and bytes that are kept for watchers that come back.
KEPT_MESSAGES, KEPT_BYTES = 4_000, 4 << 20
#: Seconds after the last watcher during which messages are kept all the same: a reload of the page takes less.
LINGER = 60.0
#: Seconds of silence after which a comment is sent, so that proxies and browsers keep the connection.
HEARTBEAT = 15.0

_BEAT = b": heartbeat\n\n"


@dataclass(frozen=True, slots=True)
class _Message:
    number: int
    topics: frozenset[str]
    text: bytes


class UpdateWatcher:
    """One connection's unread messages."""

    def __init__(self, topics: frozenset[str], greeting: Callable[[bool], bytes]) -> None:
        self.topics = topics
        self._greeting = greeting
        self._unread: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._closed = False

    def offer(self, text: bytes) -> None:
        """Queues a message. Over the bounds the queue is replaced by a greeting: read everything afresh."""
        if len(self._unread) >= MESSAGES or self._bytes + len(text) > BYTES:
            self._unread.clear()
            self._bytes = 0
            text = self._greeting(False)
        self._unread.append(text)
        self._bytes += len(text)
        self._news.set()

    def end(self) -> None:
        """Ends the iteration once everything queued is read."""
        self._closed = True
        self._news.set()

    async def texts(self) -> AsyncIterator[bytes]:
        """Yields what is unread, joined, and a comment after every silence."""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._news.wait()
            except TimeoutError:
                yield _BEAT
                continue
            self._news.clear()
            text = b"".join(self._unread)
            self._unread.clear()
            self._bytes = 0
            if text:
                yield text
            if self._closed:
                return


class Broadcast:
    """The watchers by topic, and the last messages for those that come back. clock: monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Numbers begin anew with every process: its ids must not look like another's.
        self._process = secrets.token_hex(4)
        self._number = 0
        self._by_topic: defaultdict[str, set[UpdateWatcher]] = defaultdict(set)
        self._watchers: set[UpdateWatcher] = set()
        self._kept: deque[_Message] = deque()
        self._kept_bytes = 0
        self._left = -LINGER

    @property
    def watched(self) -> bool:
        """True while a visitor watches, and for a moment after."""
        return bool(self._watchers) or self._clock() - self._left < LINGER

    @property
    def topics(self) -> Collection[str]:
        """The topics that visitors watch."""
        return self._by_topic.keys()

    @property
    def watchers(self) -> int:
        """The number of watchers."""
        return len(self._watchers)

    def publish(self, topics: Iterable[str], event: str, data: bytes) -> None:
        """Sends a message to everybody who watches one of the topics. data: JSON without line ends.

        A watcher of two of the topics gets it twice: `open` sees to it that there is none.
        """
        if not self.watched:
            return
        self._number += 1
        text = b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._process.encode(), self._number, event.encode(), data)
        message = _Message(self._number, frozenset(topics), text)
        for topic in message.topics:
            for watcher in self._by_topic.get(topic, ()):
                watcher.offer(text)
        self._keep(message)

    def open(self, topics: frozenset[str], last: str = "") -> UpdateWatcher:
        """Returns a new watcher, whose first message is `hello`. last: the id of the last message it has seen."""
        if not self.watched:
            # Nothing was kept since the last one left: what follows has a number of its own, so that a gap shows.
            self._kept.clear()
            self._kept_bytes = 0
            self._number += 1
        watcher = UpdateWatcher(topics, self._greeting)
        missed = self._since(last)
        watcher.offer(self._greeting(missed is not None))
        for message in missed or ():
            if message.topics & topics:
                watcher.offer(message.text)
        for topic in topics:
            self._by_topic[topic].add(watcher)
        self._watchers.add(watcher)
        return watcher

    def close(self, watcher: UpdateWatcher) -> None:
        """Forgets a watcher."""
        self._watchers.discard(watcher)
        for topic in watcher.topics:
            self._by_topic[topic].discard(watcher)
            if not self._by_topic[topic]:
                del self._by_topic[topic]
        self._left = self._clock()

    def end(self) -> None:
        """Ends all watchers: the process stops."""
        for watcher in self._watchers:
            watcher.end()

    def _greeting(self, resumed: bool) -> bytes:
        """Returns `hello`. resumed: the watcher has missed nothing; otherwise it reads afresh what it shows."""
        data = orjson.dumps({"resumed": resumed})
        return b"id: %s-%d\nevent: hello\ndata: %s\n\n" % (self._process.encode(), self._number, data)

    def _since(self, last: str) -> list[_Message] | None:
        """Returns the messages after this id, None if some of them are not kept any more."""
        process, _, number = last.partition("-")
        if process != self._process or not number.isdecimal() or len(number) > 18:
            return None
        seen = int(number)
        oldest = self._kept[0].number if self._kept else self._number + 1
        if seen > self._number or seen + 1 < oldest:
            return None
        return [message for message in self._kept if message.number > seen]

    def _keep(self, message: _Message) -> None:
        self._kept.append(message)
        self._kept_bytes += len(message.text)
        while len(self._kept) > KEPT_MESSAGES or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft().text)
