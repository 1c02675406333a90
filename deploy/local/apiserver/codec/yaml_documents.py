"""YAML bodies as JSON documents: read by libyaml, within limits on nesting and aliases, with remarks on repeated keys.

A document is gone through twice. The first time only its events are counted, without recursion and without keeping
anything, so that what is nested too deeply or grows by its aliases is refused before anything is made of it.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

#: The deepest nesting of a document. orjson cannot encode much deeper ones again.
DEEPEST = 200
#: The most bytes of a document with its aliases written out: as many as the largest body may have.
LARGEST = 3 * 1024 * 1024


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(yaml.CSafeLoader):
    """YAML's JSON part: a date is a text, and so is what YAML 1.1 reads as a number to base 60 (``22:22``).

    Kubernetes' parser knows no such numbers, and the time to compute long ones grows with the square of their length.
    """

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return "tag:yaml.org,2002:str" if tag in _NUMBERS and ":" in value else tag


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(body: bytes) -> tuple[Any, list[str]]:
    """Returns the document as JSON has it (timestamps and keys are texts), and a remark for every repeated key.

    Raises ValueError for what JSON cannot express and for what is nested too deeply or grows too large.
    """
    try:
        counted = _EventCount()
        for event in yaml.parse(body, Loader=_Loader):
            counted.take(event)
        loaded = yaml.load(body, Loader=_Loader)
        return orjson.loads(orjson.dumps(loaded, option=orjson.OPT_NON_STR_KEYS)), counted.repeated()
    except (yaml.YAMLError, orjson.JSONEncodeError) as error:
        raise ValueError(str(error)) from None
    # What the constructors of explicit tags raise for texts that they do not expect (``!!int ''``).
    except (ArithmeticError, AttributeError, LookupError, TypeError):
        raise ValueError("a value does not fit its tag") from None


def write(text: bytes) -> bytes:
    """Returns a JSON document as YAML."""
    dumped: bytes = yaml.dump(orjson.loads(text), Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8")
    return dumped


@dataclass(slots=True)
class _OpenCollection:
    """A list or a map that has not ended. size and depth: of what it holds so far. keys: of a map, None for a list."""

    anchor: str | None
    keys: set[str] | None
    size: int = 1
    depth: int = 1
    at_key: bool = True


@dataclass(slots=True)
class _EventCount:
    """The sum of the events of a document: (size, depth) by anchor, and the keys that are repeated, by line."""

    open: list[_OpenCollection] = field(default_factory=lambda: [_OpenCollection(None, None, depth=0)])
    anchors: dict[str, tuple[int, int]] = field(default_factory=dict)
    again: list[tuple[int, str]] = field(default_factory=list)
    aliased: bool = False

    def take(self, event: yaml.Event) -> None:
        """Counts one event. Raises ValueError beyond a limit."""
        match event:
            case yaml.ScalarEvent():
                if event.tag in _NUMBERS and ":" in event.value:
                    raise ValueError(f"{event.value[:20]!r} is a number to base 60")
                self._key(event)
                self._add(len(event.value) + 1, 0, event.anchor)
            case yaml.CollectionStartEvent():
                if len(self.open) > DEEPEST:
                    raise ValueError(f"the document is nested more than {DEEPEST} levels deep")
                self.open.append(
                    _OpenCollection(event.anchor, set() if isinstance(event, yaml.MappingStartEvent) else None)
                )
            case yaml.CollectionEndEvent():
                ended = self.open.pop()
                self._add(ended.size, ended.depth, ended.anchor)
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise ValueError(f"anchor {event.anchor!r} is not known, or contains itself")
                self.aliased = True
                self._add(*self.anchors[event.anchor], None)

    def _add(self, size: int, depth: int, anchor: str | None) -> None:
        """Adds a node to what is open around it; aliases count as often as they stand."""
        if anchor:
            self.anchors[anchor] = size, depth
        around = self.open[-1]
        around.size += size
        around.depth = max(around.depth, depth + 1)
        around.at_key = not around.at_key
        if self.aliased and around.size > LARGEST:
            raise ValueError("the document contains excessive aliasing")
        if len(self.open) + depth > DEEPEST + 1:
            raise ValueError(f"the document is nested more than {DEEPEST} levels deep")

    def _key(self, event: yaml.ScalarEvent) -> None:
        around = self.open[-1]
        # What `<<` merges may be said again beside it.
        if around.keys is None or not around.at_key or event.value == "<<":
            return
        if event.value in around.keys:
            self.again.append((event.start_mark.line + 1 if event.start_mark else 0, event.value))
        around.keys.add(event.value)

    def repeated(self) -> list[str]:
        """The remarks on repeated keys, by line."""
        return [f'line {line}: key "{key}" already set in map' for line, key in sorted(self.again)]
