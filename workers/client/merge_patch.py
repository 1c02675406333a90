"""JSON merge patches (RFC 7386): the smallest one that turns one object into another."""

from typing import Any


def diff(old: Any, new: Any) -> Any:
    """The merge patch from `old` to `new`; an empty dict when they are equal dicts.

    Lists are replaced whole, as the RFC has it. A key missing from `new` becomes None.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            patch[key] = diff(old[key], value)
    return patch
