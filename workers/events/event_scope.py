"""One event as expressions and substitutions see it: its attributes, and its data in the form they have."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from penstock import cloudevents

#: Levels of lists and objects in data that are parsed. What is parsed is also written: orjson writes 254 levels.
DEEPEST = 200

#: A whole number that may have more than 64 bits.
_LONG_NUMBER = re.compile(r"\d{19}")


@dataclass(frozen=True)
class EventScope:
    """One event. fields: its attributes with `data` or `data_base64`, as docs/events.md has them."""

    fields: Mapping[str, str]
    attributes: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        given = {name: value for name, value in self.fields.items() if name not in ("data", "data_base64")}
        object.__setattr__(self, "attributes", given)

    @cached_property
    def has_data(self) -> bool:
        """Returns True if the event has data, be they empty."""
        return "data" in self.fields or "data_base64" in self.fields

    @cached_property
    def data(self) -> Any:
        """Returns the data: parsed where they are JSON, else text, or bytes; None without any.

        Data are JSON by their media type. Those of an event without one are JSON if they are an object or a list.
        Malformed JSON, and JSON that is nested deeper than `DEEPEST` levels, stays text.
        """
        raw = self._raw
        if raw is None or not self._is_json(raw):
            return raw
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return raw
        return parsed if _depth(parsed, DEEPEST + 1) <= DEEPEST else raw

    @cached_property
    def exact_data(self) -> Any:
        """Returns the data as `data` has them, but whole numbers of more than 64 bits with all their digits.

        Those are floats in `data`, because CEL has no other numbers for them.
        """
        raw = self._raw
        if isinstance(self.data, str | bytes | None) or raw is None:
            return self.data
        text = raw if isinstance(raw, str) else raw.decode()
        # Beyond 308 digits orjson refuses a number, and the data are a text.
        return json.loads(text) if _LONG_NUMBER.search(text) else self.data

    @cached_property
    def _raw(self) -> str | bytes | None:
        text = self.fields.get("data")
        if text is None and (encoded := self.fields.get("data_base64")) is not None:
            return base64.b64decode(encoded)
        return text

    def structured(self) -> str:
        """Returns the event in CloudEvents' JSON format, as one line."""
        event: dict[str, Any] = dict(self.attributes)
        if "data" in self.fields:
            event["data"] = self.exact_data
        elif "data_base64" in self.fields:
            event["data_base64"] = self.fields["data_base64"]
        return as_json(event)

    def _is_json(self, raw: str | bytes) -> bool:
        media = self.fields.get("datacontenttype", "").partition(";")[0].strip()
        if media:
            return cloudevents.is_json(media)
        return isinstance(raw, str) and raw.lstrip()[:1] in ("{", "[")

    @cached_property
    def size(self) -> int:
        """Returns the characters of all names and values."""
        return sum(len(name) + len(value) for name, value in self.fields.items())

    @cached_property
    def extent(self) -> tuple[int, int, int]:
        """Returns the entries of the largest list or object, the characters of the longest text, and all entries."""
        longest = max(map(len, self.attributes.values()), default=0)
        entries, total, todo = len(self.fields), len(self.fields), [self.data]
        while todo:
            each = todo.pop()
            if isinstance(each, dict | list):
                entries, total = max(entries, len(each)), total + len(each)
                todo += (*each, *each.values()) if isinstance(each, dict) else each
            elif isinstance(each, str | bytes):
                longest = max(longest, len(each))
        return entries, longest, total


def as_json(value: Any) -> str:
    """Returns a value of JSON as text, in one line. Raises RecursionError for one that is nested too deeply."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        # Numbers of more than 64 bits, deep nesting, and half of a surrogate pair.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _depth(value: Any, most: int) -> int:
    """Returns how many lists and objects are nested in each other, at most `most`."""
    depth, level = 0, [value] if isinstance(value, dict | list) else []
    while level and depth < most:
        depth += 1
        inner = (one for each in level for one in (each.values() if isinstance(each, dict) else each))
        level = [one for one in inner if isinstance(one, dict | list)]
    return depth
