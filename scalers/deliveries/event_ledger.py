"""The ledger of one EventJob: events are taken in, routed and claimed, each step by one script."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from redis import exceptions

from penstock.client import beside
from penstock.scaler import SourceError
from scalers.claimable import ClaimableItems, ClaimRequest
from scalers.deliveries import event_routing
from scalers.sources.events.intake import ACCEPT, Intake
from scalers.sources.redis.claim_scripts import BUDGET, Call, run_scripts
from scalers.sources.redis.connection import RedisLink, reason
from scheduler.keys import DeliveryKeys, type_of
from scheduler.scripts import Script, load
from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.api.penstock_dev.scheduledjob import RunTemplate
from workers.decision.claims import LARGEST, LOOK, ClaimedItem

_READ = Script(load("scalers", "read_channel"))
_ROUTE = Script(load("scalers", "route_events"))
_CLAIM = Script(load("scalers", "claim_deliveries"))
_CLOSE = Script(load("scalers", "close_deliveries"))

#: Events and bytes that one script routes, and batches that one poll routes at most.
BATCH, BYTES, VISITS = 250, 4_000_000, 16

#: The sums of the script `claim_deliveries`, in its order; names of EventCounts.
SUMS = ("waiting", "delayed", "running", "retrying", "parked", "done", "filtered", "duplicates")


#: The settings of a channel whose own EventJob is not there, and of an EventJob whose spec cannot be used.
DEFAULTS = EventJobSpec.model_construct(job_template=RunTemplate.model_construct(spec={}))


def channel_keys(intake: str) -> tuple[str, ...]:
    """Returns the keys of a channel in the order of the scripts: accepted, unfinished, intake and what is beside it."""
    first = (beside(intake, "accepted"), beside(intake, "unfinished"), intake)
    return (*first, *(beside(intake, part) for part in ("parked", "seen", "counts")))


def removal(keys: DeliveryKeys, intake: str, joined: str = "") -> Call:
    """Returns the call that takes an EventJob out of a channel. joined: the intake it joins; without one it is gone."""
    return Call(_CLOSE, (*keys.all(), *channel_keys(intake)), (keys.uid, joined))


@dataclass(frozen=True, slots=True)
class _Unrouted:
    """Entries that are not taken over. cursor: the last one that is. moved: from this intake."""

    cursor: str = ""
    entries: tuple[tuple[str, Sequence[bytes]], ...] = ()
    moved: str = ""

    @classmethod
    def of(cls, answer: Any) -> "_Unrouted":
        if answer[0] == b"MOVED":
            return cls(moved=answer[1].decode())
        entries = tuple((entry.decode(), fields) for entry, fields in answer[1:])
        return cls(answer[0].decode(), entries)


@dataclass(frozen=True, slots=True)
class EventLedger:
    """The ledger of one EventJob.

    server: its name in messages. owner: `namespace/name`. intake: of its channel. spec: None while it cannot be used:
    claims are settled then, and nothing is taken in. dead_letters: the intake that parked events are pushed to.
    deleting: the ledger ends with its last claim.
    """

    server: str
    owner: str
    keys: DeliveryKeys
    intake: Intake
    spec: EventJobSpec | None
    dead_letters: str | None = None
    deleting: bool = False

    async def carry_out(self, link: RedisLink, request: ClaimRequest) -> ClaimableItems:
        """Takes pushed events in, routes them, and carries the order out; one round trip where there are none.

        Raises SourceError for what the server refuses.
        """
        claim = self._claim(request)
        if self.spec is None or self.deleting:
            [answer] = await self._ask(link, [claim])
            return _items(answer)
        calls = [self._accept, self._read(self.intake.stream), self._claim(request, after_routing=True)]
        routing: list[Call] = []
        for _ in range(1 + VISITS):
            *_, taken, read, answer = await self._ask(link, [*routing, *calls])
            found, left = _Unrouted.of(read), bool(self.intake.answer(taken).again is not None)
            if found.moved:
                await self._leave(link, found.moved, self.spec)
            elif answer == [b"unrouted"]:
                pass
            elif not found.entries and not left:
                return _items(answer)
            elif _parked(answer) >= self.spec.dead_letter.limit:
                # Nothing runs before some are replayed or dropped, and an event may be parked when it is routed.
                return _items(answer)
            routing = self._route(self.intake.stream, found, self.spec)
        *_, answer = await self._ask(link, [*routing, claim])
        return _items(answer, unrouted=True)

    async def _leave(self, link: RedisLink, intake: str, spec: EventJobSpec) -> None:
        """Takes over what a former channel has accepted, and leaves it. Its events go by the spec as it is now."""
        for _ in range(VISITS):
            [read] = await self._ask(link, [self._read(intake)])
            found = _Unrouted.of(read)
            if found.moved:
                return
            if found.entries:
                await self._ask(link, self._route(intake, found, spec))
                continue
            [left] = await self._ask(link, [removal(self.keys, intake, self.intake.stream)])
            if left:
                return

    @property
    def _accept(self) -> Call:
        return Call(ACCEPT, self.intake.keys, self.intake.arguments)

    def _read(self, intake: str) -> Call:
        keys = (self.keys.of("meta"), beside(intake, "accepted"))
        return Call(_READ, keys, (self.keys.uid, intake, BATCH, BYTES))

    def _route(self, intake: str, found: _Unrouted, spec: EventJobSpec) -> list[Call]:
        """Returns the call that takes these entries over; none without entries."""
        if not found.entries:
            return []
        events = [event_routing.routed(spec, entry, fields) for entry, fields in found.entries]
        taken = [event for event in events if event is not None]
        keys = (*self.keys.all(), beside(intake, "accepted"), beside(intake, "unfinished"), *self._dead_letters)
        cursors = (found.cursor, found.entries[-1][0])
        arguments = (
            *(self.keys.uid, self.owner, *cursors, len(events) - len(taken)),
            *(spec.dedup.window_seconds * 1000, spec.dedup.limit),
            *(argument for event in taken for argument in event.arguments),
        )
        return [Call(_ROUTE, keys, arguments)]

    @property
    def _dead_letters(self) -> tuple[str, ...]:
        return (self.dead_letters,) if self.dead_letters else ()

    def _claim(self, request: ClaimRequest, *, after_routing: bool = False) -> Call:
        """Returns the call that carries the order out. after_routing: it does nothing while events are to be routed."""
        order, spec = request.order or LOOK, self.spec or DEFAULTS
        rate, limit = spec.rate_limit, 0 if self.spec is None else order.limit
        settlements: list[str | int] = []
        for each in order.settlements:
            settlements += (each.id, each.how, each.reason, each.attempt, each.delay, each.job)
        arguments = (
            *(order.id if request.order else "", limit, BUDGET, LARGEST, self.keys.uid, self.owner),
            *(spec.dead_letter.limit, spec.history.limit, spec.history.seconds * 1_000_000),
            *((rate.jobs, rate.period_seconds * 1_000_000, rate.burst or rate.jobs) if rate else (0, 0, 0)),
            *(int(self.deleting), int(after_routing), len(order.settlements), *settlements, *order.bound),
        )
        keys = (*self.keys.all(), *channel_keys(self.intake.stream), *self._dead_letters)
        return Call(_CLAIM, keys, arguments)

    async def _ask(self, link: RedisLink, calls: Sequence[Call]) -> Sequence[Any]:
        """Returns the answers, in one round trip. Raises SourceError with the first refusal."""
        answers = await run_scripts(link, calls)
        refused = [answer for answer in answers if isinstance(answer, exceptions.RedisError)]
        if refused:
            mistyped = any("WRONGTYPE" in str(each) for each in refused)
            broken = await _of_a_wrong_type(link, [key for call in calls for key in call.keys]) if mistyped else []
            raise SourceError(f"{self.server}: {', '.join(broken) or self.intake.stream}: {reason(refused[0])}")
        return answers


async def _of_a_wrong_type(link: RedisLink, keys: Sequence[str]) -> list[str]:
    """Returns the keys whose type is not theirs. They stay where they are: what they held exists nowhere else."""
    wanted = {key: type_ for key in keys if (type_ := type_of(key))}
    found: Any = await link.run([("TYPE", key) for key in wanted])
    return [key for key, type_ in zip(wanted, found, strict=True) if type_ not in (wanted[key], b"none")]


def _items(answer: Any, *, unrouted: bool = False) -> ClaimableItems:
    """Returns the answer of the script `claim_deliveries`. unrouted: events are left for the next poll."""
    obeyed, again, last, *rest = answer
    counts = dict(zip(SUMS, rest, strict=False))
    rows = rest[len(SUMS) :]
    soon = 0.0 if unrouted else None if again == b"" else int(again) / 1000
    return ClaimableItems(
        waiting=float(counts["waiting"]),
        claims=tuple(_claim(*rows[place : place + 5]) for place in range(0, len(rows), 5)),
        applied=obeyed == b"1",
        again=soon,
        counts=counts,
        last_arrival=event_routing.arrival(last.decode()) if last else 0,
    )


def _parked(answer: Any) -> int:
    return int(answer[3 + SUMS.index("parked")])


def _claim(id: bytes, attempt: bytes, size: int, attributes: bytes | None, content: bytes | None) -> ClaimedItem:
    if attributes is None:
        return ClaimedItem(id.decode(), int(attempt), size, encoding="json")
    text = item(attributes, content)
    length = len(text.encode())
    return ClaimedItem(id.decode(), int(attempt), length, text if length <= LARGEST else None, "json")


def item(attributes: bytes, content: bytes | None) -> str:
    """Returns an event as its Job gets it: a JSON object of attributes, with its data as text or in base64."""
    event: dict[str, str] = orjson.loads(attributes)
    if content:
        event["data" if content.startswith(b"t") else "data_base64"] = content[1:].decode()
    return orjson.dumps(event).decode()
