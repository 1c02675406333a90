"""Defers or leaves out modules that a library imports and few processes use.

Some libraries import all they have with their first name: a command line beside a parser, a blocking client beside an
asynchronous one. Such a module costs megabytes of each process. The import system's own `LazyLoader` executes a
deferred module at the first use of one of its attributes, so that it works as ever where it is used. A library that
takes what it uses out of another one at once executes that one; if it can do without, that one is hidden from it.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

#: The official client's blocking half and what its logins need, which no process of ours uses.
BLOCKING_KUBERNETES_CLIENT = tuple(
    f"kubernetes.{name}"
    for name in ("client", "config", "dynamic", "informer", "leaderelection", "stream", "utils", "watch")
)


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
def _first(finder: Any) -> Iterator[None]:
    """Asks this finder before all others in the block."""
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Makes the modules of these full names, if imported in this block, execute at their first use.

    A module that was imported before the block stays as it is.
    """
    with _first(_DeferringFinder(frozenset(names))):
        yield


class _HidingFinder:
    """Finds nothing, and lets no finder after it find the named packages."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Makes these packages seem not to be installed in this block, unless they were imported before."""
    with _first(_HidingFinder(names)):
        yield


class _WithoutExtras(Loader):
    """Loads a module as its own loader does, with some packages hidden from it."""

    def __init__(self, loader: Loader, extras: Sequence[str]) -> None:
        self._loader = loader
        self._extras = extras

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with hidden(*self._extras):
            self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _SparingFinder:
    """Finds the named libraries alone, see `spare`."""

    def __init__(self, extras: Mapping[str, Sequence[str]]) -> None:
        self._extras = extras

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._extras:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithoutExtras(spec.loader, self._extras[name])
        return spec


def spare(extras: Mapping[str, Sequence[str]]) -> None:
    """Hides packages, by the library that imports them, from that library in this process.

    For processes of our own: another one may use what the library does with its extras.
    """
    sys.meta_path.insert(0, _SparingFinder(extras))
