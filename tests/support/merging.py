"""Merge patches as RFC 7386 has them, written as its pseudo code reads: nothing of ours is asked."""

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Returns the value with the patch applied."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
