"""Claims of items in Redis: one script beside the queue carries an order out."""

from abc import abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
from redis import exceptions

from penstock.client import beside
from penstock.scaler import Connections, SourceError
from scalers.claimable import Claiming, Errand, Found
from scalers.sources.redis.connection import Answer, Link, reason
from scalers.sources.redis.source import RedisSource
from scheduler.scripts import Script
from workers.handoff import claims
from workers.handoff.claims import Claim, Order

#: Bytes of items that one visit reads at most; what is left over is read by the next, when the first have their Jobs.
BUDGET = 1_000_000

#: An order that settles nothing and takes nothing, for looking.
_LOOK = Order(id=0, of="", limit=0)


@dataclass(frozen=True, slots=True)
class Call:
    """One script to be run where its first key lives."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[str | int, ...]

    @property
    def key(self) -> str:
        """The queue."""
        return self.keys[0]


class RedisClaims(RedisSource, Claiming):
    """Claims of a trigger of the family. A subclass says which script, and how an item reads."""

    @property
    def queue(self) -> str:
        """The key whose items are claimed."""
        return self.question.key

    @abstractmethod
    def claim_script(self) -> Script:
        """What carries an order out."""

    @abstractmethod
    def item(self, value: Any) -> tuple[str, str]:
        """An item as text, and how the text stands for it; see workers.handoff.claims.Claim."""

    def particulars(self, errand: Errand) -> tuple[str, ...]:  # noqa: ARG002 - only some have any
        """What the script must know beside the order."""
        return ()

    async def carry_out(self, errand: Errand, connections: Connections) -> Found:
        """See Claiming."""
        server, queue = self.server, self.queue
        keys = (queue, beside(queue, f"penstock:{errand.uid}"), beside(queue, "parked"))
        call = Call(self.claim_script(), keys, self._arguments(errand))
        answer: Any = (await server.answers([call], _run, connections))[0]
        if isinstance(answer, exceptions.RedisError):
            raise SourceError(f"{server}: {queue}: {reason(answer)}")
        if isinstance(answer, SourceError):
            raise answer
        waiting, obeyed, *rows = answer
        found = (self._claim(*rows[place : place + 4]) for place in range(0, len(rows), 4))
        return Found(float(waiting), tuple(found), obeyed == b"1")

    def _arguments(self, errand: Errand) -> tuple[str | int, ...]:
        order = errand.order or _LOOK
        settlements: list[str | int] = []
        for each in order.settlements:
            settlements += (each.id, each.how, each.reason, each.attempt)
        return (
            order.id if errand.order else "",
            order.limit,
            int(order.tail),
            BUDGET,
            claims.LARGEST,
            errand.owner,
            *self.particulars(errand),
            len(order.settlements),
            *settlements,
            *order.bound,
        )

    def _claim(self, id: bytes, attempt: bytes, size: int, value: Any) -> Claim:
        if value is None:
            return Claim(id.decode(), int(attempt), size)
        text, encoding = self.item(value)
        length = len(text.encode())
        return Claim(id.decode(), int(attempt), length, text if length <= claims.LARGEST else None, encoding)


def as_text(item: bytes) -> tuple[str, str]:
    """An item as text: itself where that is possible in a variable and an annotation, otherwise in base64."""
    try:
        text = item.decode()
    except UnicodeDecodeError:
        text = "\0"
    return (b64encode(item).decode(), "base64") if "\0" in text else (text, "text")


def as_object(fields: Sequence[bytes]) -> tuple[str, str]:
    """A stream's entry as a JSON object of its fields; of a field that is there twice the last one counts."""
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    try:
        return orjson.dumps({name.decode(): value.decode() for name, value in pairs}).decode(), "json"
    except UnicodeDecodeError:
        coded = {b64encode(name).decode(): b64encode(value).decode() for name, value in pairs}
        return orjson.dumps(coded).decode(), "json-base64"


async def _run(link: Link, calls: Sequence[Call]) -> Sequence[Answer]:
    """Each script by its digest; its text is sent to a server that does not know it."""
    answers = await link.run([("EVALSHA", call.script.digest, *_rest(call)) for call in calls])
    unknown = [place for place, answer in enumerate(answers) if isinstance(answer, exceptions.NoScriptError)]
    if unknown:
        again = await link.run([("EVAL", calls[place].script.text, *_rest(calls[place])) for place in unknown])
        for place, answer in zip(unknown, again, strict=True):
            answers[place] = answer
    return cast(Sequence[Answer], answers)


def _rest(call: Call) -> tuple[str | int, ...]:
    return (len(call.keys), *call.keys, *call.args)
