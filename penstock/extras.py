"""Client libraries that come as extras: imported when a trigger needs them, and named when they are missing."""

import importlib
from types import ModuleType

from penstock.errors import UserError


class MissingLibrary(UserError):  # noqa: N818 - names the cause
    """A trigger needs a library that is not installed."""


def needed(module: str, extra: str) -> ModuleType:
    """Returns the module. Raises MissingLibrary, which names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingLibrary(f"a library is missing: pip install 'penstock[{extra}]'") from None
