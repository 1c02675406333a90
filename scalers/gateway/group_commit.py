"""Group commit: the events of requests that are in flight share round trips to the broker, and waits for its disk."""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis import exceptions
from redis.asyncio import Redis

from penstock import cloudevents
from scalers.gateway.auth.pusher import SignatureProof
from scalers.gateway.destinations import Channel
from scalers.gateway.drain_rate import DrainRates
from scalers.gateway.problem import RequestRefused, refused
from scalers.metrics import COMMIT_EVENTS
from scalers.sources.redis.connection import RedisServer, reason
from scheduler.broker.fast_path import together
from scheduler.queue import Lane
from scheduler.scripts import Script, load
from workers.api.penstock_dev.push_settings import Durability, PushSettings
from workers.metrics.process import PUSHED
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)

_PUSH = Script(load("scalers", "push_events"))

#: Events of one script, of one round trip, and bytes of one round trip, about; one request may have more.
SCRIPT_EVENTS, TRIP_EVENTS, TRIP_BYTES = 1_000, 4_000, 8 << 20
#: Round trips that one group of requests has under way: while one waits for a disk the next one can begin.
TRIPS, DURABLE_TRIPS = 2, 8
#: Seconds that a round trip may take, and milliseconds of it that disk and replicas may take.
PATIENCE, DURABLE_PATIENCE = 10.0, 4_000
#: Servers other than our own broker that are kept connected.
_SERVERS = 64

Event = Mapping[str, str]


class Accepted(NamedTuple):
    """The outcome of one event. entry: its id among the accepted ones; None if it is a duplicate."""

    id: str
    source: str
    entry: str | None

    @property
    def duplicate(self) -> bool:
        """True if an event of the same source and id was accepted before."""
        return self.entry is None


@dataclass(slots=True)
class _Waiting:
    """One request that waits for a round trip. args: of its events, for the script."""

    channel: Channel
    args: list[str]
    events: int
    bytes: int
    answer: "asyncio.Future[list[str]]"


@dataclass(frozen=True, slots=True)
class _Durability:
    """The confirmations that a round trip waits for after the script."""

    fsync: bool
    replicas: int

    @property
    def is_plain(self) -> bool:
        """True if the broker's memory is enough."""
        return not self.fsync and not self.replicas

    @property
    def commands(self) -> list[tuple[str | int, ...]]:
        """The commands after the scripts, on the same connection."""
        fsync: list[tuple[str | int, ...]] = [("WAITAOF", 1, 0, DURABLE_PATIENCE)] if self.fsync else []
        return [*fsync, *([("WAIT", self.replicas, DURABLE_PATIENCE)] if self.replicas else [])]


@dataclass
class GroupCommit:
    """Adds events to channels.

    client: of our own broker. poll: its lane of polls. notify: sends notifications.
    """

    client: Redis
    poll: Lane
    notify: Notify
    clock: Callable[[], float] = time.monotonic
    rates: DrainRates = field(default_factory=DrainRates)
    _groups: dict[tuple[RedisServer | None, Durability, int], "_Group"] = field(default_factory=dict)
    _clients: OrderedDict[RedisServer, Redis] = field(default_factory=OrderedDict)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def push(
        self, channel: Channel, settings: PushSettings, events: Sequence[Event], proof: SignatureProof | None = None
    ) -> list[Accepted]:
        """Adds the events, all or none, and returns each one's outcome once they are as durable as the settings say.

        proof: the signature of the request; its events are accepted once, even if the channel has forgotten them.
        Raises RequestRefused: 413 for more events than the channel ever has room for, 429 without room now, 503 if the
        broker is away, refuses or does not confirm in time.
        """
        if not events:
            return []
        args = _arguments(events, proof)
        key = (channel.server, settings.durability, settings.replicas)
        if (group := self._groups.get(key)) is None:
            durability = _Durability(settings.durability == "fsync", settings.replicas)
            group = self._groups[key] = _Group(self, channel.server, durability)
        entries = await group.add(channel, args, len(events))
        return [
            Accepted(event["id"], event["source"], entry or None) for event, entry in zip(events, entries, strict=True)
        ]

    async def close(self) -> None:
        """Waits for what is under way, then closes connections to other servers than our own broker."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose(close_connection_pool=True)

    def spawn(self, work: Any) -> "asyncio.Task[None]":
        """Runs a coroutine in the background; `close` waits for it."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def client_of(self, server: RedisServer | None) -> Redis:
        """Returns the client of a server."""
        if server is None:
            return self.client
        if server not in self._clients:
            self._clients[server] = server.client(connections=TRIPS + DURABLE_TRIPS)
            while len(self._clients) > _SERVERS:
                _, unused = self._clients.popitem(last=False)
                self.spawn(unused.aclose(close_connection_pool=True))
        self._clients.move_to_end(server)
        return self._clients[server]


class _Group:
    """The requests of one server and durability that wait for a round trip, and the round trips under way."""

    def __init__(self, commit: GroupCommit, server: RedisServer | None, durability: _Durability) -> None:
        self._commit = commit
        self._server = server
        self._durability = durability
        self._most_trips = TRIPS if durability.is_plain else DURABLE_TRIPS
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._trips = 0

    def add(self, channel: Channel, args: list[str], events: int) -> "asyncio.Future[list[str]]":
        """Adds a request, which travels as soon as a round trip may begin; its answer has an entry per event."""
        answer: asyncio.Future[list[str]] = self._loop.create_future()
        self._waiting.append(_Waiting(channel, args, events, sum(map(len, args)), answer))
        if self._trips < self._most_trips:
            self._trips += 1
            self._commit.spawn(self._travel())
        return answer

    async def _travel(self) -> None:
        try:
            # Requests that are read in the same turn of the loop come along.
            await asyncio.sleep(0)
            while self._waiting:
                await self._trip(self._taken())
        finally:
            self._trips -= 1

    def _taken(self) -> list[list[_Waiting]]:
        """Returns the requests of the next round trip, those of one script each; every request's order is kept."""
        # By the channel's identity: its hash takes longer than all else here, and an equal one makes one more script.
        scripts: dict[int, list[list[_Waiting]]] = {}
        lengths: dict[int, int] = {}
        events = size = 0
        while self._waiting:
            request = self._waiting[0]
            if events and (events + request.events > TRIP_EVENTS or size + request.bytes > TRIP_BYTES):
                break
            self._waiting.popleft()
            events, size = events + request.events, size + request.bytes
            channel = id(request.channel)
            length = lengths.get(channel, SCRIPT_EVENTS) + request.events
            if length > SCRIPT_EVENTS:
                scripts.setdefault(channel, []).append([])
                length = request.events
            lengths[channel] = length
            scripts[channel][-1].append(request)
        return [piece for pieces in scripts.values() for piece in pieces]

    async def _trip(self, scripts: list[list[_Waiting]]) -> None:
        """Makes one round trip, and gives every request its answer. Raises nothing but a cancellation."""
        COMMIT_EVENTS.observe(sum(request.events for script in scripts for request in script))
        try:
            async with asyncio.timeout(PATIENCE):
                answers, waits = await self._asked(scripts)
            unconfirmed = self._unconfirmed(waits)
            for script, answer in zip(scripts, answers, strict=True):
                self._settle(script, answer, unconfirmed)
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            self._fail(scripts, _unknown(error))
        except BaseException as error:
            # A defect: neither these requests nor those that wait for the next round trip may wait for ever.
            self._fail(scripts, refused(500, "internal", "an error of the gateway; pushing again is safe"))
            if not isinstance(error, Exception):
                raise
            log.exception("a round trip failed", extra={"server": self._name})

    async def _asked(self, scripts: list[list[_Waiting]]) -> tuple[list[Any], list[Any]]:
        """Returns the answers of the scripts, and those of the commands that wait for disk and replicas."""
        client = self._commit.client_of(self._server)
        calls = [self._call(script) for script in scripts]
        answers, waits = await self._sent(client, calls)
        missing = [place for place, answer in enumerate(answers) if isinstance(answer, exceptions.NoScriptError)]
        if missing:
            await client.script_load(_PUSH.text)
            again, waits = await self._sent(client, [calls[place] for place in missing])
            for place, answer in zip(missing, again, strict=True):
                answers[place] = answer
        return answers, waits

    async def _sent(self, client: Redis, calls: Sequence[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
        answers = await together(client, [*calls, *self._durability.commands], refusals=True)
        return answers[: len(calls)], answers[len(calls) :]

    def _call(self, script: list[_Waiting]) -> list[Any]:
        channel, limits = script[0].channel, script[0].channel.limits
        own = self._server is None
        keys = [*channel.keys, *(self._commit.poll.keys.all() if own else ())]
        takers = channel.takers if own else ()
        numbers = (limits.events, limits.window, limits.remembered, self._commit.poll.slots)
        args = [channel.group, *numbers, len(takers), *takers, len(script)]
        for request in script:
            args += request.args
        return ["EVALSHA", _PUSH.digest, len(keys), *keys, *args]

    def _settle(self, script: list[_Waiting], answer: Any, unconfirmed: RequestRefused | None) -> None:
        if isinstance(answer, exceptions.RedisError):
            log.warning("events were refused by the broker", extra={"error": reason(answer), "server": self._name})
            self._fail([script], _declined(answer))
            return
        waiting, accepted, notifications, *outcomes = answer
        if notifications:
            self._commit.spawn(self._commit.notify({self._commit.poll.name: notifications}))
        now, rate = self._commit.clock(), self._commit.rates.of(script[0].channel.stream)
        for request, outcome in zip(script, outcomes, strict=True):
            if request.answer.done():
                continue
            if isinstance(outcome, int) and outcome > 0:
                request.answer.set_exception(_never(request.channel, outcome))
            elif outcome == -1:
                surplus = waiting + request.events - request.channel.limits.events
                after = rate.seconds_until(now, accepted, waiting, surplus)
                request.answer.set_exception(_full(request.channel, waiting, after))
            elif unconfirmed:
                request.answer.set_exception(unconfirmed)
            else:
                request.answer.set_result([entry.decode() if isinstance(entry, bytes) else entry for entry in outcome])
        entries = [entry for outcome in outcomes if not isinstance(outcome, int) for entry in outcome]
        duplicates = sum(not entry for entry in entries)
        PUSHED.labels("accepted").inc(len(entries) - duplicates)
        PUSHED.labels("duplicates").inc(duplicates)
        rate.note(now, accepted, waiting)

    def _unconfirmed(self, waits: Sequence[Any]) -> RequestRefused | None:
        """Returns the answer to events that are in the broker's memory, and not as durable as they have to be."""
        wanted = [("in its append-only file", 1)] if self._durability.fsync else []
        wanted += [(f"with {self._durability.replicas} replicas", self._durability.replicas)] * bool(
            self._durability.replicas
        )
        for answer, (where, least) in zip(waits, wanted, strict=True):
            if isinstance(answer, exceptions.RedisError):
                log.warning("events cannot be as durable as push says", extra={"error": reason(answer)})
                detail = f"the broker cannot say that the events are {where}; they are in its memory"
                return refused(503, "not-durable", f"{detail}, and pushing them again is safe")
            reached = answer[0] if isinstance(answer, list | tuple) else answer
            if reached < least:
                detail = f"the events are in the broker's memory, and not {where} within {DURABLE_PATIENCE} ms"
                return refused(
                    503, "not-durable", f"{detail}; pushing them again is safe", headers={"Retry-After": "1"}
                )
        return None

    @property
    def _name(self) -> str:
        return "the broker" if self._server is None else str(self._server)

    def _fail(self, scripts: list[list[_Waiting]], error: RequestRefused) -> None:
        for script in scripts:
            for request in script:
                if not request.answer.done():
                    request.answer.set_exception(error)


def _arguments(events: Sequence[Event], proof: SignatureProof | None) -> list[str]:
    """Returns the arguments of one request for the script."""
    signature, seconds = (proof.digest, proof.seconds) if proof else ("", 0)
    args = [signature, str(seconds * 1000), str(len(events))]
    for event in events:
        args += (cloudevents.digest(event["source"], event["id"]), str(2 * len(event)))
        for name_and_value in event.items():
            args += name_and_value
    return args


def _never(channel: Channel, new: int) -> RequestRefused:
    most = channel.limits.events
    detail = f"a request with {new} new events, and {most} may be not done (maxEvents): push fewer at once"
    return refused(413, "too-many-events", detail)


def _full(channel: Channel, waiting: int, after: int) -> RequestRefused:
    most = channel.limits.events
    detail = f"{waiting} events are not done, and {most} may be; nothing of the request was accepted"
    return refused(429, "full", detail, headers={"Retry-After": str(after)})


def _unknown(error: BaseException) -> RequestRefused:
    log.warning("the broker did not answer a push", extra={"error": reason(error)})
    detail = "the broker does not answer; the events may have been accepted, and pushing them again is safe"
    return refused(503, "broker-away", detail, headers={"Retry-After": "1"})


def _declined(error: exceptions.RedisError) -> RequestRefused:
    detail = "the broker takes no events now; nothing of the request was accepted"
    away = isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError)
    return _unknown(error) if away else refused(503, "broker-refuses", detail, headers={"Retry-After": "5"})
