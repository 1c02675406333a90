"""Pushes work to Penstock from Python: CloudEvents for triggers of type `push`, items for the strategy `claim`.

    import redis
    from penstock.client import Event, EventStream

    orders = EventStream(redis.Redis.from_url(url), "orders", namespace="shop")
    [pushed] = orders.push(Event(type="order.placed", source="/shop", id="4711", data={"total": 12}))

Each class exists twice: `EventStream`, `ItemList` and `ItemStream` take a `redis.Redis`, their namesakes with `Async` a
`redis.asyncio.Redis`. However many events or items one call gets, they travel in one round trip. The client stays the
caller's, and so do its errors: what Redis refuses or cannot do is raised as redis-py raises it.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

import redis
import redis.asyncio

from penstock import _broker_format, cloudevents
from penstock.errors import PenstockError, UserError

Client = TypeVar("Client")

#: Bytes of the largest item that a Job can carry.
LARGEST_ITEM = 180_000
#: Events that one script adds; the server does nothing else meanwhile.
_CHUNK = 250

# KEYS: 1 the intake, 2 the accepted events (streams), 3 what was seen (a sorted set of digests by time), on Penstock's
#       broker 4 the format of its data
# ARGV: 1 milliseconds in which an event is the same one, 2 most events that may be not done (0: any number), 3 the
#       newest format that the caller writes, then for each event its digest, how many texts it has, and its names and
#       values
# Answer: for each event its entry's id, or '' for one that was seen before; an error FULL or FORMAT that nothing was
#       added
_PUSH = """
local format = KEYS[4] and redis.call('GET', KEYS[4]) or '0'
if not (tonumber(format) and tonumber(format) <= tonumber(ARGV[3])) then
  return redis.error_reply('FORMAT ' .. format)
end
local clock = redis.call('TIME')
local since = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) - tonumber(ARGV[1])
local most, events, at = tonumber(ARGV[2]), {}, 4
local room = most > 0 and most - redis.call('XLEN', KEYS[1]) - redis.call('XLEN', KEYS[2]) or math.huge
while at <= #ARGV do
  local seen = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[at]) or nil)
  local event = {seen = seen ~= nil and seen > since, first = at + 2, last = at + 1 + tonumber(ARGV[at + 1])}
  if not event.seen then room = room - 1 end
  events[#events + 1], at = event, event.last + 1
end
if room < 0 then return redis.error_reply('FULL there is no room for so many events') end
local answers = {}
for i, event in ipairs(events) do
  answers[i] = event.seen and '' or redis.call('XADD', KEYS[1], '*', unpack(ARGV, event.first, event.last))
end
return answers
"""


class _Invalid(UserError):  # noqa: N818 - as its subclasses
    """One of the call's events or items is wrong. index: its place among them."""

    noun: ClassVar[str]

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"{self.noun} {index}: {problem}")
        self.index = index


class InvalidEvent(_Invalid):
    """An event has a wrong attribute. index: its place among those of the call; nothing of the call was pushed."""

    noun = "event"


class InvalidItem(_Invalid):
    """An item cannot be given to a Job. index: its place among those of the call; nothing of the call was put."""

    noun = "item"


class Full(PenstockError):  # noqa: N818 - what it is
    """As many events as may be are not done.

    The event that found no room was not pushed; of very many in one call some may have been, and pushing all of them
    again is safe.
    """


@dataclass(frozen=True, slots=True)
class Event:
    """A CloudEvent. docs/events.md has what the attributes may be.

    source, id: name the event; without an id it gets a random one. data: a text or bytes, or what is to be pushed as
    JSON. time: with a time zone; by default now. attributes: further ones, by their names in lower case.
    """

    type: str
    source: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    data: Any = None
    time: datetime | None = field(default_factory=lambda: datetime.now(UTC))
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> dict[str, str]:
        """Returns the event as names and texts. Raises ValueError that names a wrong attribute."""
        for name in self.attributes:
            if name in _OWN:
                raise ValueError(f"{name} is no further attribute")
        if self.time is not None and self.time.tzinfo is None:
            raise ValueError("time must have a time zone")
        given = {
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "time": self.time.isoformat() if self.time else None,
            "subject": self.subject,
            "datacontenttype": self.datacontenttype,
            "dataschema": self.dataschema,
            **self.attributes,
        }
        event = {name: text for name, text in given.items() if text is not None}
        for name, text in event.items():
            if not isinstance(text, str):
                raise ValueError(f"{name} must be a text")
        if isinstance(self.data, bytes | bytearray | memoryview):
            event = cloudevents.with_data(event, bytes(self.data))
        elif self.data is not None:
            event |= cloudevents.from_json({**event, "data": self.data})
        if problem := cloudevents.wrong(event):
            raise ValueError(problem)
        return event


_OWN = frozenset(
    ("specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data", "data_base64")
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The outcome of one pushed event. entry: its id in the stream, or None for a duplicate, which was left out."""

    id: str
    entry: str | None

    @property
    def duplicate(self) -> bool:
        """Returns whether an event of the same source and id was taken in before, or precedes it in the same call.

        An event that was pushed before and is not taken in yet is unknown: it is added, and dropped at the intake.
        """
        return self.entry is None


class _Intake(Generic[Client]):
    """The keys of one object's events, and the commands that push to it."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str = "default",
        prefix: str = "penstock",
        stream: str | None = None,
        window: float = 3600.0,
        max_events: int | None = None,
    ) -> None:
        """name, namespace: of the ScaledJob. prefix: as in PENSTOCK_PREFIX.

        stream: given if the trigger names one. window: seconds, the trigger's deduplicationWindow. max_events: refuses
        events beyond the trigger's maxEvents, which would be dropped; None pushes without asking.
        """
        if max_events is not None and max_events < 1:
            raise UserError(f"max_events must be at least 1, not {max_events}")
        self._client = client
        self.stream = stream or f"{{{prefix}}}:events:{namespace}/{name}"
        self._keys: tuple[str, ...] = (self.stream, beside(self.stream, "accepted"), beside(self.stream, "seen"))
        if stream is None:
            # Another stream is on the server of its trigger, whose keys are its users'.
            self._keys += (f"{{{prefix}}}:format",)
        self._numbers = (round(window * 1000), max_events or 0, _broker_format.FORMAT)

    def prepare(self, events: Iterable[Event]) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Returns source and id of each event, and the commands that push each distinct one once."""
        named: dict[tuple[str, str], list[str]] = {}
        order: list[tuple[str, str]] = []
        for index, event in enumerate(events):
            try:
                fields = event.fields()
            except ValueError as error:
                raise InvalidEvent(index, str(error)) from None
            order.append((event.source, event.id))
            named.setdefault(order[-1], [text for pair in fields.items() for text in pair])
        texts = [[cloudevents.digest(*name), len(fields), *fields] for name, fields in named.items()]
        chunks = (texts[at : at + _CHUNK] for at in range(0, len(texts), _CHUNK))
        commands = [
            (_PUSH, len(self._keys), *self._keys, *self._numbers, *(text for one in chunk for text in one))
            for chunk in chunks
        ]
        return order, commands

    @staticmethod
    def told(order: Sequence[tuple[str, str]], answers: Sequence[Any]) -> list[Pushed]:
        """Returns the outcome of each event.

        Raises Full, UserError if a newer release wrote the broker's data, or the server's other refusals.
        """
        for answer in answers:
            if isinstance(answer, redis.ResponseError) and str(answer).startswith("FORMAT "):
                _broker_format.check(str(answer).removeprefix("FORMAT "))
            if isinstance(answer, redis.ResponseError) and str(answer).startswith("FULL"):
                raise Full("as many events as max_events allows are not done") from answer
            if isinstance(answer, Exception):
                raise answer
        entries = dict(zip(dict.fromkeys(order), (_text(one) for answer in answers for one in answer), strict=True))
        return [Pushed(name[1], entries.pop(name, "") or None) for name in order]


class EventStream(_Intake[redis.Redis]):
    """The intake of a ScaledJob with a trigger of type `push`, on Penstock's broker or on the server of the trigger."""

    def push(self, *events: Event) -> list[Pushed]:
        """Pushes events in their order. Returns the outcome of each.

        Pushing again what may have been pushed is safe. Raises InvalidEvent before anything is pushed, and Full; and
        UserError if a newer release of Penstock wrote the broker's data.
        """
        order, commands = self.prepare(events)
        if not commands:
            return []
        with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.eval(*command)
            return self.told(order, pipe.execute(raise_on_error=False))


class AsyncEventStream(_Intake[redis.asyncio.Redis]):
    """As `EventStream`, with an asyncio client."""

    async def push(self, *events: Event) -> list[Pushed]:
        """As `EventStream.push`."""
        order, commands = self.prepare(events)
        if not commands:
            return []
        async with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.eval(*command)
            return self.told(order, await pipe.execute(raise_on_error=False))


class _Items(Generic[Client]):
    """A queue of items, by its key."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name


class ItemList(_Items[redis.Redis]):
    """A Redis list whose items are claimed, each by one Job: the `listName` of a trigger of type `redis`."""

    def put(self, *items: str | bytes) -> int:
        """Adds items at the tail, all or none, and returns the list's length. Raises InvalidItem."""
        _check_items(items)
        return int(self._client.rpush(self.name, *items) if items else self._client.llen(self.name))


class AsyncItemList(_Items[redis.asyncio.Redis]):
    """As `ItemList`, with an asyncio client."""

    async def put(self, *items: str | bytes) -> int:
        """As `ItemList.put`."""
        _check_items(items)
        return int(await (self._client.rpush(self.name, *items) if items else self._client.llen(self.name)))


class ItemStream(_Items[redis.Redis]):
    """A Redis stream whose entries are claimed, each by one Job: the `stream` of a trigger of type `redis-streams`."""

    def put(self, *items: Mapping[str, str | bytes]) -> list[str]:
        """Adds entries, all or none, and returns their ids. Raises InvalidItem."""
        _check_entries(items)
        if not items:
            return []
        with self._client.pipeline(transaction=True) as pipe:
            for item in items:
                pipe.xadd(self.name, dict(item))  # type: ignore[arg-type]
            return [_text(entry) for entry in pipe.execute()]


class AsyncItemStream(_Items[redis.asyncio.Redis]):
    """As `ItemStream`, with an asyncio client."""

    async def put(self, *items: Mapping[str, str | bytes]) -> list[str]:
        """As `ItemStream.put`."""
        _check_entries(items)
        if not items:
            return []
        async with self._client.pipeline(transaction=True) as pipe:
            for item in items:
                pipe.xadd(self.name, dict(item))  # type: ignore[arg-type]
            return [_text(entry) for entry in await pipe.execute()]


def beside(queue: str, part: str) -> str:
    """Returns a key in the same hash slot as this one: it shares its hash tag, or takes its name as the tag.

    There is no such key beside a name with stray braces; a cluster refuses the script then and says so.
    """
    start = queue.find("{")
    tagged = start >= 0 and queue.find("}", start) > start + 1
    return f"{queue if tagged or '{' in queue or '}' in queue else f'{{{queue}}}'}:{part}"


def _check_items(items: Sequence[str | bytes]) -> None:
    for index, item in enumerate(items):
        if not isinstance(item, str | bytes):
            raise InvalidItem(index, f"must be a text or bytes, not {type(item).__name__}")
        _check_size(index, item)


def _check_entries(items: Sequence[Mapping[str, str | bytes]]) -> None:
    for index, item in enumerate(items):
        if not item:
            raise InvalidItem(index, "must have a field")
        for name, value in item.items():
            if not isinstance(name, str) or not isinstance(value, str | bytes):
                raise InvalidItem(index, f"field {name!r} must be a text or bytes")
        texts = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in item.items()}
        _check_size(index, json.dumps(texts, ensure_ascii=False, separators=(",", ":")))


def _check_size(index: int, given: str | bytes) -> None:
    try:
        item = given.encode() if isinstance(given, str) else given
    except UnicodeEncodeError:
        raise InvalidItem(index, "has half of a surrogate pair, which is no character") from None
    # In base64 an item that is no text is a third larger.
    try:
        size = len(item) if "\0" not in item.decode() else -(-len(item) // 3) * 4
    except UnicodeDecodeError:
        size = -(-len(item) // 3) * 4
    if size > LARGEST_ITEM:
        raise InvalidItem(index, f"has {size} bytes, and a Job can carry {LARGEST_ITEM}")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
