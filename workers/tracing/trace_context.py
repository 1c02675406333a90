"""W3C trace contexts: the `traceparent` of an event, and the ids of the spans that are derived from it.

Ids of spans are digests of the thing they tell of. A decision that is made twice after a crash exports the same span
twice, under one id.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson

from workers.api import job_annotations
from workers.api.kinds import Object

#: The attribute of an event (CloudEvents' extension for distributed tracing), and the header of HTTP.
ATTRIBUTE = "traceparent"

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span that others may follow. trace_id, span_id: lower-case hexadecimal. sampled: whether spans are kept."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def text(self) -> str:
        """The `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def derived(self, *parts: object) -> "TraceContext":
        """Returns the context of a span of the same trace that these parts name."""
        text = "\0".join(map(str, (self.trace_id, self.span_id, *parts)))
        return replace(self, span_id=_not_zero(blake2b(text.encode(), digest_size=8).hexdigest()))


def parse(text: object) -> TraceContext | None:
    """Returns the context of a `traceparent`, None for a malformed or missing one, as W3C's rules say."""
    match = _TRACEPARENT.fullmatch(text) if isinstance(text, str) and len(text) <= 512 else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def root(entropy: bytes) -> TraceContext:
    """Returns the context of a new trace. entropy: at least 24 random bytes."""
    if len(entropy) < 24:
        raise ValueError("a trace needs 24 random bytes")
    return TraceContext(_not_zero(entropy[:16].hex()), _not_zero(entropy[16:24].hex()))


def of_job(job: Object) -> TraceContext | None:
    """Returns the context of the event that a Job was created for, None if it has none."""
    annotations: Mapping[str, Any] = job["metadata"].get("annotations") or {}
    if (found := parse(annotations.get(job_annotations.TRACEPARENT))) is not None:
        return found
    text = annotations.get(job_annotations.ITEM)
    if annotations.get(job_annotations.ITEM_ENCODING) != "json" or not isinstance(text, str) or ATTRIBUTE not in text:
        return None
    try:
        event = orjson.loads(text)
    except ValueError:
        return None
    return parse(event.get(ATTRIBUTE)) if isinstance(event, dict) else None


def _not_zero(digits: str) -> str:
    # Ids of zeros alone are invalid.
    return digits if digits.strip("0") else digits[:-1] + "1"
