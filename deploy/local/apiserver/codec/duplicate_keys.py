"""Duplicate keys in a client's JSON or YAML: a parser keeps one value of such a key and silently drops the others."""

import json
from collections.abc import Iterator
from typing import Any

import orjson
import yaml


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


def in_yaml(body: bytes) -> list[str]:
    """A remark about every key that is repeated, with its line."""
    root = yaml.compose(body, Loader=yaml.SafeLoader)
    return [f'line {line}: key "{key}" already set in map' for line, key in sorted(_lines(root))] if root else []


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


def _lines(node: yaml.Node) -> Iterator[tuple[int, str]]:
    # The node behind an alias is visited once: an alias may even be part of its own node.
    nodes, known = [node], {id(node)}
    while nodes:
        each = nodes.pop()
        inner: list[yaml.Node] = []
        if isinstance(each, yaml.MappingNode):
            keys = [key for key, _ in each.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            seen: set[str] = set()
            for key in keys:
                if key.value in seen:
                    yield key.start_mark.line + 1, key.value
                seen.add(key.value)
            inner = [value for _, value in each.value]
        elif isinstance(each, yaml.SequenceNode):
            inner = each.value
        new = {id(one): one for one in inner if id(one) not in known}
        nodes += new.values()
        known |= new.keys()
