"""Scalers by trigger type: found through an entry point when first asked for."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import TypeVar

from penstock.scaler import Scaler
from scalers.triggers.keda_types import TYPES as KEDA_TYPES
from workers.errors import UserError

#: The entry-point group in which packages, this one included, name their scalers.
GROUP = "penstock.scalers"

S = TypeVar("S", bound=type[Scaler])


class ScalerRegistry:
    """The classes of scalers, by trigger type."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Scaler]] = {}
        self._points = EntryPoints()

    def register(self, type: str) -> Callable[[S], S]:
        """Make a class the scaler of this trigger type; used as a decorator.

        Raises ValueError when another class has the type already.
        """

        def add(scaler: S) -> S:
            known = self._classes.setdefault(type, scaler)
            if known is not scaler:
                raise ValueError(
                    f"trigger type {type} is registered twice: by {known.__qualname__} and by {scaler.__qualname__}"
                )
            return scaler

        return add

    def known(self) -> tuple[str, ...]:
        """Every type there is a scaler for."""
        self._points = entry_points(group=GROUP)
        return tuple(sorted({*self._classes, *self._points.names}))

    def unknown(self, type: str) -> str | None:
        """Returns the error of an unknown trigger type, None for a known one. Loads no scaler."""
        if self._knows(type):
            return None
        if type in KEDA_TYPES:
            return f"trigger type {type} is not supported yet"
        return f"there is no trigger type {type}"

    def find(self, type: str) -> type[Scaler]:
        """The class for a trigger type.

        Raises UserError for a type that is not registered, telling KEDA's other types from misspelled ones, and for an
        entry point that cannot be loaded.
        """
        if type not in self._classes and self._knows(type):
            for point in self._points.select(name=type):
                self.register(type)(_load(point))
        if type in self._classes:
            return self._classes[type]
        known = "supported" if type in KEDA_TYPES else "known"
        raise UserError(f"{self.unknown(type)}; {known} are {', '.join(self.known())}")

    def _knows(self, type: str) -> bool:
        # Entry points are read again only for a type that is none of them, whose package may be installed by now: that
        # opens the metadata of every package, and admission asks for every object.
        return type in self._classes or type in self._points.names or type in self.known()


def _load(point: EntryPoint) -> type[Scaler]:
    try:
        scaler: type[Scaler] = point.load()
    except Exception as error:
        raise UserError(f"the scaler of trigger type {point.name} ({point.value}) cannot be loaded: {error}") from error
    return scaler


#: The registry that workers use.
REGISTRY = ScalerRegistry()
