"""The backlog of Celery queues on a Redis server, in the layout of kombu's transport, counted by one script.

A queue is a list for each priority step. Unacknowledged messages of all queues are in one hash, each with the exchange
and the routing key it was sent with.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis import exceptions

from penstock.scaler import Measure
from scalers.sources.redis.connection import Answer, RedisLink
from scheduler.scripts import load

_SCRIPT = load("scalers", "celery")

#: The oldest messages of each list whose eta is read; those behind them count as due.
SCANNED = 1000

#: Unacknowledged messages of one server that are read; more make the number unknown.
MOST_UNACKED = 50_000


@dataclass(frozen=True, slots=True)
class TransportLayout:
    """The transport options that name the keys of messages."""

    prefix: str = ""
    separator: str = "\x06\x16"
    unacked: str = "unacked"


@dataclass(frozen=True, slots=True)
class UnackedMessages:
    """Unacknowledged messages of one exchange and key. soonest: milliseconds until the first of `later` is due."""

    exchange: str
    key: str
    number: int
    later: int
    soonest: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """The question for the tasks of queues. steps: of priorities. future: counts tasks that are not due yet."""

    queues: tuple[str, ...]
    layout: TransportLayout = TransportLayout()
    steps: tuple[int, ...] = (0, 3, 6, 9)
    future: bool = False

    @property
    def lists(self) -> tuple[str, ...]:
        """The keys of the queues."""
        layout = self.layout
        ends = [f"{layout.separator}{step}" if step else "" for step in self.steps]
        return tuple(dict.fromkeys(f"{layout.prefix}{queue}{end}" for queue in self.queues for end in ends))

    @property
    def key(self) -> str:
        """The first of the lists."""
        return self.lists[0]

    def answer(self, lists: Mapping[str, Any], held: Sequence[UnackedMessages], tables: "BacklogTables") -> Answer:
        """Returns the number, from the script's answer."""
        counts = [lists[name] for name in self.lists]
        for count in counts:
            if isinstance(count, (bytes, exceptions.RedisError)):
                return exceptions.ResponseError(count.decode() if isinstance(count, bytes) else str(count))
        ours = [(one.number, one.later, one.soonest) for one in held if self._ours(one, tables)]
        every = [*map(tuple, counts), *ours]
        later = sum(count[1] for count in every)
        value = float(sum(count[0] for count in every) - (0 if self.future else later))
        soonest = min((count[2] for count in every if count[1]), default=None)
        return Measure(value, again=None if soonest is None or self.future else soonest / 1000)

    def _ours(self, held: UnackedMessages, tables: "BacklogTables") -> bool:
        return any(tables.reaches(queue, held.exchange, held.key) for queue in self.queues)


class BacklogTables:
    """The bindings of exchanges to queues, as the transport stores them."""

    def __init__(self, entries: Mapping[str, Sequence[str]], separator: str) -> None:
        self._entries = {
            exchange: [parts for text in texts if len(parts := text.split(separator)) == 3]
            for exchange, texts in entries.items()
        }

    def reaches(self, queue: str, exchange: str, key: str) -> bool:
        """Returns whether a message of this exchange and key may be from this queue. A broadcast is from none."""
        if not exchange:
            return key == queue
        return any(
            name == queue and (bound == key or (pattern and matches(bound.split("."), key.split("."))))
            for bound, pattern, name in self._entries.get(exchange, ())
        )


def matches(pattern: Sequence[str], key: Sequence[str]) -> bool:
    """Returns whether a topic's words fit: ``*`` is one word, ``#`` any number of them.

    It takes no more steps than the product of both lengths.
    """
    at = place = 0
    wildcard, tried = -1, 0
    while at < len(key):
        if place < len(pattern) and pattern[place] == "#":
            wildcard, tried = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("*", key[at]):
            at, place = at + 1, place + 1
        elif wildcard >= 0:
            # The last wildcard takes one word more.
            tried += 1
            at, place = tried, wildcard + 1
        else:
            return False
    return all(word == "#" for word in pattern[place:])


async def ask(link: RedisLink, questions: Sequence[Backlog]) -> Sequence[Answer]:
    """Returns all backlogs, in one round trip; unacknowledged messages are read once per layout."""
    groups: defaultdict[TransportLayout, list[Backlog]] = defaultdict(list)
    for question in questions:
        groups[question.layout].append(question)
    names = {layout: list(dict.fromkeys(n for one in ones for n in one.lists)) for layout, ones in groups.items()}
    answers = await link.run([_command(layout, lists) for layout, lists in names.items()])
    found: dict[Backlog, Answer] = {}
    for (layout, ones), answer in zip(groups.items(), answers, strict=True):
        found.update(_answers(layout, ones, names[layout], answer))
    return [found[question] for question in questions]


def _command(layout: TransportLayout, lists: Sequence[str]) -> tuple[str | int, ...]:
    keys = (layout.prefix + layout.unacked, *lists)
    return ("EVAL", _SCRIPT, len(keys), *keys, SCANNED, MOST_UNACKED, f"{layout.prefix}_kombu.binding.")


def _answers(
    layout: TransportLayout, ones: Sequence[Backlog], names: Sequence[str], answer: Any
) -> dict[Backlog, Answer]:
    if isinstance(answer, exceptions.RedisError):
        return dict.fromkeys(ones, answer)
    counts, groups, entries = answer
    lists = dict(zip(names, counts, strict=True))
    held = [UnackedMessages(_text(exchange), _text(key), *numbers) for exchange, key, *numbers in groups]
    tables = BacklogTables({_text(name): [_text(one) for one in texts] for name, texts in entries}, layout.separator)
    return {one: one.answer(lists, held, tables) for one in ones}


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
