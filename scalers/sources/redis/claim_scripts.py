"""Claims of items in Redis: one script carries an order out on the queue and the ledger beside it."""

from abc import abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import orjson
from redis import exceptions

from penstock.client import beside
from penstock.scaler import Connections, SourceError
from scalers.claimable import ClaimableItems, Claiming, ClaimRequest
from scalers.sources.field_properties import value_of
from scalers.sources.redis.connection import Answer, RedisLink, reason
from scalers.sources.redis.source import RedisSource
from scheduler.scripts import Script
from workers.decision import claims
from workers.decision.claims import LOOK, ClaimedItem

#: Bytes of items that one request reads at most; the next reads the rest, when the first items have their Jobs.
BUDGET = 1_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a script, on the node of its first key."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[str | int, ...]

    @property
    def key(self) -> str:
        """The queue."""
        return self.keys[0]


class RedisClaims(RedisSource, Claiming):
    """The base of triggers with claims. A subclass defines the script and the text of an item."""

    # The key whose items are claimed.
    queue: ClassVar[str] = value_of("question.key")

    @abstractmethod
    def claim_script(self) -> Script:
        """Returns the script that carries an order out."""

    @abstractmethod
    def item(self, value: Any) -> tuple[str, str]:
        """Returns an item as text, and the text's encoding; see workers.decision.claims.ClaimedItem."""

    def particulars(self, request: ClaimRequest) -> tuple[str, ...]:  # noqa: ARG002 - only some have any
        """Returns further arguments of the script."""
        return ()

    async def carry_out(self, request: ClaimRequest, connections: Connections) -> ClaimableItems:
        """See Claiming."""
        server, queue = self.server, self.queue
        keys = (queue, beside(queue, f"penstock:{request.uid}"), beside(queue, "parked"))
        call = Call(self.claim_script(), keys, self._arguments(request))
        answer: Any = (await server.answers([call], run_scripts, connections))[0]
        if isinstance(answer, exceptions.RedisError):
            raise SourceError(f"{server}: {queue}: {reason(answer)}")
        if isinstance(answer, SourceError):
            raise answer
        waiting, obeyed, parked, *rows = answer
        found = (self._claim(*rows[place : place + 4]) for place in range(0, len(rows), 4))
        return ClaimableItems(float(waiting), tuple(found), obeyed == b"1", counts={"parked": parked})

    def _arguments(self, request: ClaimRequest) -> tuple[str | int, ...]:
        order = request.order or LOOK
        settlements: list[str | int] = []
        for each in order.settlements:
            settlements += (each.id, each.how, each.reason, each.attempt)
        return (
            order.id if request.order else "",
            order.limit,
            int(order.tail),
            BUDGET,
            claims.LARGEST,
            request.owner,
            *self.particulars(request),
            len(order.settlements),
            *settlements,
            *order.bound,
        )

    def _claim(self, id: bytes, attempt: bytes, size: int, value: Any) -> ClaimedItem:
        if value is None:
            return ClaimedItem(id.decode(), int(attempt), size)
        text, encoding = self.item(value)
        length = len(text.encode())
        return ClaimedItem(id.decode(), int(attempt), length, text if length <= claims.LARGEST else None, encoding)


def as_text(item: bytes) -> tuple[str, str]:
    """Returns an item as text: itself if a variable and an annotation can hold it, otherwise in base64."""
    try:
        text = item.decode()
    except UnicodeDecodeError:
        text = "\0"
    return (b64encode(item).decode(), "base64") if "\0" in text else (text, "text")


def as_object(fields: Sequence[bytes]) -> tuple[str, str]:
    """Returns a stream's entry as a JSON object of its fields; of two fields of one name the last one counts."""
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    try:
        return orjson.dumps({name.decode(): value.decode() for name, value in pairs}).decode(), "json"
    except UnicodeDecodeError:
        coded = {b64encode(name).decode(): b64encode(value).decode() for name, value in pairs}
        return orjson.dumps(coded).decode(), "json-base64"


async def run_scripts(link: RedisLink, calls: Sequence[Call]) -> Sequence[Answer]:
    """Calls each script by its digest, and by its text where the server does not know it."""
    answers = await link.run([("EVALSHA", call.script.digest, *_rest(call)) for call in calls])
    unknown = [place for place, answer in enumerate(answers) if isinstance(answer, exceptions.NoScriptError)]
    if unknown:
        again = await link.run([("EVAL", calls[place].script.text, *_rest(calls[place])) for place in unknown])
        for place, answer in zip(unknown, again, strict=True):
            answers[place] = answer
    return cast(Sequence[Answer], answers)


def _rest(call: Call) -> tuple[str | int, ...]:
    return (len(call.keys), *call.keys, *call.args)
