"""The intake of one object: CloudEvents in a Redis stream, its keys and its scripts.

docs/events.md is the public interface.
"""

import base64
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from redis import exceptions

from penstock.scaler import Measure
from scalers.sources.redis.claims import beside
from scalers.sources.redis.connection import Answer, RedisLink
from scheduler.scripts import load
from workers.metrics.process import PUSHED

log = logging.getLogger(__name__)

_SIFT, _PUSH = load("scalers", "sift"), load("scalers", "push")

#: Bytes of the largest event, names and values together.
LARGEST = 1 << 20

#: Entries that one script takes, and scripts that one measurement runs for one intake at most.
BATCH, VISITS = 500, 8

#: Outcomes of pushed entries, in the script's order.
OUTCOMES = ("accepted", "duplicates", "parked", "dropped")

_NAME = re.compile(r"[a-z0-9]+|data_base64")

# The values of attributes. The script that takes events in (scalers/lua/sift.lua) checks the same.
_TIME = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)"
    r"(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_URI = re.compile(r"([a-zA-Z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-fA-F]{2})+")
_IPV6 = re.compile(r"//[^/?#\[\]]*\[[0-9a-fA-F:.]+\]")
_TOKEN = r"[a-zA-Z0-9!#$&^_.+-]+"
_MEDIA = re.compile(rf"{_TOKEN}/{_TOKEN}[ ]*(;.+)?")
_BASE64 = re.compile(r"[a-zA-Z0-9+/]*=?=?")


@dataclass(frozen=True, slots=True)
class Intake:
    """The intake of one object.

    stream: others add events to it. limit: most events that may be not done. window: milliseconds in which an event of
    the same source and id is a duplicate; remembered: most ids for that. parked: most entries kept that are no events.
    held: counts events that were taken and not acknowledged, too.
    """

    stream: str
    group: str
    limit: int
    window: int
    remembered: int
    parked: int
    held: bool

    @property
    def key(self) -> str:
        """The stream."""
        return self.stream

    @property
    def accepted(self) -> str:
        """The stream of valid events, each once, from which Jobs take them."""
        return beside(self.stream, "accepted")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, in the order of the scripts."""
        return (self.stream, self.accepted, *(beside(self.stream, part) for part in ("parked", "seen", "counts")))

    @property
    def sift(self) -> tuple[str | int, ...]:
        """The command that takes pushed events in."""
        numbers = (self.limit, self.window, self.remembered, self.parked, BATCH, LARGEST)
        return ("EVAL", _SIFT, len(self.keys), *self.keys, self.group, *numbers)

    def push(self, event: Mapping[str, str]) -> tuple[str | int, ...]:
        """Returns the command that adds an event, which is refused with FULL at the limit."""
        fields = [text for pair in event.items() for text in pair]
        return ("EVAL", _PUSH, 2, self.stream, self.accepted, self.group, self.limit, *fields)

    def answer(self, sifted: Sequence[int]) -> Measure:
        """Returns the number of events, from the script's answer."""
        waiting, held, left, *taken = sifted
        became = dict(zip(OUTCOMES, taken, strict=True))
        for outcome, number in became.items():
            PUSHED.labels(outcome).inc(number)
        if became["parked"] or became["dropped"]:
            log.warning("pushed entries were not accepted", extra={"stream": self.stream, **became})
        return Measure(float(waiting + held if self.held else waiting), again=0.0 if left else None)


async def ask(link: RedisLink, questions: Sequence[Intake]) -> Sequence[Answer]:
    """Takes in the events pushed to these intakes. Returns the number of events that wait in each."""
    answers: list[Answer] = []
    open_ = list(range(len(questions)))
    for visit in range(VISITS):
        sifted: list[Any] = await link.run([questions[place].sift for place in open_])
        found = {place: _answer(questions[place], answer) for place, answer in zip(open_, sifted, strict=True)}
        if not visit:
            answers = list(found.values())
        for place, answer in found.items():
            answers[place] = answer
        open_ = [place for place, one in found.items() if isinstance(one, Measure) and one.again is not None]
        if not open_:
            break
    return answers


def _answer(intake: Intake, answer: Any) -> Answer:
    return answer if isinstance(answer, exceptions.RedisError) else intake.answer(answer)


def wrong(event: Mapping[str, str]) -> str | None:
    """Returns why this is no event, naming the attribute; None for an event."""
    if sum(len(name.encode()) + len(value.encode()) for name, value in event.items()) > LARGEST:
        return f"is larger than {LARGEST} bytes"
    for name in event:
        if not _NAME.fullmatch(name):
            return f"{name!r}: attribute names are lower-case letters and digits"
    if len(event) > 100:
        return "has more than 100 attributes"
    if event.get("specversion") != "1.0":
        return "specversion must be 1.0"
    for name in ("id", "source", "type"):
        if not event.get(name):
            return f"{name} is required"
    return _malformed(event)


def _malformed(event: Mapping[str, str]) -> str | None:
    """Returns the fault in the values of an event with all required attributes; None without one."""
    for name, value in event.items():
        if name != "data" and _CONTROL.search(value):
            return f"{name} has control characters"
    if not _is_reference(event["source"]):
        return "source must be a URI reference"
    if "time" in event and not _TIME.fullmatch(event["time"]):
        return "time must be an RFC 3339 instant"
    if event.get("subject") == "":
        return "subject must not be empty"
    if "dataschema" in event and not (_is_reference(event["dataschema"]) and _SCHEME.match(event["dataschema"])):
        return "dataschema must be a URI"
    if "datacontenttype" in event and not _MEDIA.fullmatch(event["datacontenttype"]):
        return "datacontenttype must be a media type"
    if "data" in event and "data_base64" in event:
        return "data and data_base64 exclude each other"
    if "data_base64" in event and not _is_base64(event["data_base64"]):
        return "data_base64 must be base64"
    return None


def _is_reference(text: str) -> bool:
    """Returns whether this is a URI or a relative reference (RFC 3986)."""
    if not _URI.fullmatch(text) or text.count("#") > 1:
        return False
    # Brackets may only enclose an IPv6 address.
    if re.search(r"[\[\]]", _IPV6.sub("//", text, count=1)):
        return False
    first = re.split(r"[/?#]", text, maxsplit=1)[0]
    return ":" not in first or bool(_SCHEME.match(text))


def _is_base64(text: str) -> bool:
    """Returns whether this is padded base64 (RFC 4648)."""
    return len(text) % 4 == 0 and bool(_BASE64.fullmatch(text))


def from_json(body: Any) -> dict[str, str]:
    """Returns an event in CloudEvents' JSON format as names and texts. Raises ValueError."""
    if not isinstance(body, dict):
        raise ValueError("is no JSON object")
    event: dict[str, str] = {}
    for name, value in body.items():
        if value is None:
            continue
        if name == "data" and not isinstance(value, str):
            event.setdefault("datacontenttype", "application/json")
            event[name] = orjson.dumps(value).decode()
        elif isinstance(value, bool):
            event[name] = str(value).lower()
        elif isinstance(value, str | int):
            event[name] = str(value)
        else:
            raise ValueError(f"{name} must be a text, a whole number, or true or false")
    return event


def with_data(event: Mapping[str, str], data: bytes) -> dict[str, str]:
    """Returns the event with these data: as text if they are UTF-8, otherwise in base64."""
    try:
        return {**event, "data": data.decode()}
    except UnicodeDecodeError:
        return {**event, "data_base64": base64.b64encode(data).decode()}
