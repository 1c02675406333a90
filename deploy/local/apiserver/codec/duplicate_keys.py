"""Duplicate keys in a client's JSON: a parser keeps one value of such a key and silently drops the others."""

import json
from collections.abc import Iterator
from typing import Any

import orjson


def in_json(body: bytes, document: Any) -> list[str]:
    """A remark about every key that is repeated. document: what the text was read as."""
    # A document that encodes to the same bytes has lost nothing: most bodies are not parsed a second time.
    if orjson.dumps(document) == body.strip():
        return []
    found: list[tuple[dict[str, Any], list[str]]] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) < len(given):
            found.append((made, _again([name for name, _ in given])))
        return made

    whole = json.loads(body, object_pairs_hook=pairs)
    names = {id(made): again for made, again in found}
    return [f'duplicate field "{path}"' for path in _paths(whole, names, "")] if names else []


def _again(names: list[str]) -> list[str]:
    """Each name that was there before."""
    seen: set[str] = set()
    again = []
    for name in names:
        if name in seen:
            again.append(name)
        seen.add(name)
    return again


def _paths(value: Any, again: dict[int, list[str]], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in again.get(id(value), ()):
            yield f"{path}.{name}" if path else name
        for name, each in value.items():
            yield from _paths(each, again, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _paths(each, again, f"{path}[{index}]")
