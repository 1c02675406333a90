"""What Penstock requires, as its project file says it, and what that requires in turn, as it is installed here."""

import tomllib
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: The extras that bring libraries of single triggers.
EXTRAS = tuple(sorted(set(PROJECT["optional-dependencies"]) - {"dev"}))


def declared(*extras: str) -> list[Requirement]:
    """The requirements of the project itself, with those of these extras."""
    texts = [*PROJECT["dependencies"], *(text for name in extras for text in PROJECT["optional-dependencies"][name])]
    return [Requirement(text) for text in texts]


def closure(roots: Iterable[Requirement]) -> set[str]:
    """The names of the distributions that these requirements bring, transitively."""
    open_ = list(roots)
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        required = open_.pop()
        one = (canonicalize_name(required.name), frozenset(required.extras))
        if one in seen:
            continue
        seen.add(one)
        for text in metadata.requires(required.name) or ():
            further = Requirement(text)
            if not further.marker or any(further.marker.evaluate({"extra": extra}) for extra in ("", *one[1])):
                open_.append(further)
    return {name for name, _ in seen}
