"""The smallest JSON merge patch (RFC 7386) between two objects."""

from typing import Any


def diff(old: Any, new: Any) -> Any:
    """Returns the merge patch from `old` to `new`; an empty dict when they are equal dicts.

    Lists are replaced whole, as the RFC requires. A key missing from `new` becomes None.
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
