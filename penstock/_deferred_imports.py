"""Defers the execution of modules that a library imports and few processes use.

Some libraries import all they have with their first name: a command line beside a parser, a blocking client beside an
asynchronous one. Such a module costs megabytes of each process. The import system's own `LazyLoader` executes a
deferred module at the first use of one of its attributes, so that it works as ever where it is used.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class _DeferringFinder:
    """Finds the named modules alone; every other one is left to the finders after it."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Makes the modules of these full names, if imported in this block, execute at their first use.

    A module that was imported before the block stays as it is.
    """
    finder = _DeferringFinder(frozenset(names))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
