"""The decision log: the last decisions on every object, with their arithmetic, in the broker (`penstock explain`)."""

import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from scheduler.keys import Keys
from scheduler.scripts import Arg, Script, load
from workers.api.kinds import Ref
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Figure,
    HoldKey,
    MarkObject,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot
from workers.newest_entries import TurnCache

log = logging.getLogger(__name__)

#: Decisions kept per object, and objects kept per kind: at most about 25 MB of the broker per kind.
PER_OBJECT = 20
OBJECTS = 2000
#: Seconds an object's decisions are kept after the last one.
KEPT = 7 * 24 * 3600
#: The largest number that JSON readers take.
LARGEST = sys.float_info.max
#: Objects whose last decision this process remembers, so that an equal one costs no round trip.
KNOWN = 20_000

_STORE = Script(load("workers", "decisions"), ours=True)
#: Characters of a digest that are of words and figures: a decision that changes nothing and has those of the last one
#: is that one again, whatever the last one did.
WORDS = 16
#: Steps that change nothing in the cluster.
_SILENT = (ComeBack, PollNow, MarkObject, CountMetric, HoldKey)


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """One logged decision.

    why: one line. figures: the arithmetic. did: the plan's steps in words. failed: the error of the attempt before.
    times, at: how often in a row it was made, and when for the last time (µs, broker's clock).
    """

    uid: str
    why: str
    figures: tuple[Figure, ...] = ()
    did: tuple[str, ...] = ()
    failed: str | None = None
    times: int = 1
    at: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, plan: Plan) -> "LoggedDecision":
        """Returns the decision made on this snapshot."""
        body = snapshot.body or {"metadata": {}}
        return cls(
            uid=body["metadata"].get("uid", ""),
            why=plan.why,
            figures=plan.figures,
            did=tuple(done(plan.steps)),
            failed=snapshot.last_error,
        )


def done(steps: Iterable[Step]) -> Iterable[str]:
    """Returns the steps that change something, in words."""
    for step in steps:
        if isinstance(step, Together):
            counted = Counter((type(each).__name__, _kind(each)) for each in step.steps)
            yield from (f"{name} {number} {kind}{'s' * (number > 1)}" for (name, kind), number in counted.items())
        elif isinstance(step, PollNow):
            yield "ask for a fresh reading"
        elif isinstance(step, PatchStatus):
            yield "write the status"
        elif isinstance(step, RecordEvent):
            yield f"Record {step.reason}"
        elif not isinstance(step, _SILENT):
            yield f"{type(step).__name__} {_kind(step)}"


def _kind(step: Any) -> str:
    kind = step.kind if hasattr(step, "kind") else step.ref.kind
    return str(kind.kind)


class DecisionLog:
    """The decision log in one broker; nothing depends on it."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._tag = keys.tag
        self._known: TurnCache[str, bytes] = TurnCache(KNOWN)

    async def note(self, made: Sequence[tuple[Snapshot, Plan]]) -> None:
        """Logs decisions that change something, and those whose words or figures are new.

        An error of the broker is ignored: only an explanation is lost.
        """
        news: defaultdict[str, list[tuple[Ref, bytes, Plan, bytes]]] = defaultdict(list)
        for snapshot, plan in made:
            if not plan.why:
                continue
            digest, text = _encoded(LoggedDecision.of(snapshot, plan))
            if changes(plan) or (self._known.used(snapshot.ref.key) or b"")[:WORDS] != digest[:WORDS]:
                news[snapshot.ref.kind.id].append((snapshot.ref, digest, plan, text))
        for kind_id, entries in news.items():
            keys = [self._index(kind_id), *(self._list(ref) for ref, _, _, _ in entries)]
            args: list[Arg] = ["", PER_OBJECT, OBJECTS, KEPT]
            for _, digest, plan, text in entries:
                args += [digest, "1" if changes(plan) else "0", text]
            try:
                await _STORE(self._client, keys, args)
            except RedisError as error:
                log.debug("decisions were not remembered", extra={"error": str(error)})
                continue
            for ref, digest, _, _ in entries:
                self._known.keep(ref.key, digest)

    async def of(self, ref: Ref) -> list[LoggedDecision]:
        """Returns the last decisions on an object, newest first, including those on earlier objects of its name.

        Raises redis.exceptions.RedisError when the broker refuses or cannot be reached.
        """
        values: list[Any] = await self._client.lrange(self._list(ref), 0, -1)
        return [decision for value in values if (decision := _decoded(value))]

    def _index(self, kind_id: str) -> str:
        return f"{self._tag}:decisions:{kind_id}"

    def _list(self, ref: Ref) -> str:
        return f"{self._tag}:decision:{ref.key}"


def changes(plan: Plan) -> bool:
    """Returns True if a step of the plan changes the cluster, beyond marks and polls."""
    return any(not isinstance(step, _SILENT) for step in plan.steps)


def _encoded(decision: LoggedDecision) -> tuple[bytes, bytes]:
    """Returns a decision's digest and the decision as JSON, without count and time.

    The digest's first `WORDS` characters are of words and figures, the others of the steps.
    """
    figures = [{"name": each.name, "value": _written(each.value), "how": each.how} for each in decision.figures]
    words = orjson.dumps({**{name: getattr(decision, name) for name in ("uid", "why", "failed")}, "figures": figures})
    did = orjson.dumps(decision.did)
    digest = blake2b(words, digest_size=WORDS // 2).hexdigest() + blake2b(did, digest_size=4).hexdigest()
    return digest.encode(), b'%s,"did":%s}' % (words[:-1], did)


def _written(value: float) -> float:
    """Returns the value in JSON's range; an integer beyond 64 bits loses its last digits."""
    return float(max(-LARGEST, min(value, LARGEST))) if isinstance(value, int) and abs(value) >> 63 else value


def _decoded(value: bytes) -> LoggedDecision | None:
    """Decodes a decision; None for one in the format of another version."""
    try:
        _, times, at, text = value.split(b" ", 3)
        body = orjson.loads(text)
        body["figures"] = tuple(Figure(**figure) for figure in body["figures"])
        return replace(LoggedDecision(**{**body, "did": tuple(body["did"])}), times=int(times), at=int(at))
    except (KeyError, TypeError, ValueError):
        return None
