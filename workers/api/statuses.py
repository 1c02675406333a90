"""Statuses as decisions may read them: what has another shape than any controller writes counts as absent.

An API server without the schema of a kind stores what it is given. The next status that is written replaces it.
"""

from collections.abc import Mapping
from typing import Any

from workers.api import times
from workers.api.kinds import VC_JOB, Object

#: Lists of objects, and the field of each that must be a text.
_LISTS = {"conditions": "type", "flowConditions": "type", "active": "uid"}
_TEXTS = ("type", "status", "reason", "message", "phase", "lastTransitionTime")


def is_finished(pod: Object) -> bool:
    """Returns True if the pod succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def readable(body: Object) -> Object:
    """Returns the object without the parts of its status that cannot be read; itself if all can be."""
    status = body.get("status")
    if status is None:
        return body
    if not isinstance(status, dict):
        return {name: value for name, value in body.items() if name != "status"}
    # Conditions of a Volcano Job are phases, which have no type.
    phases = body.get("kind") == VC_JOB.kind and body.get("apiVersion") == VC_JOB.api_version
    keys = {**_LISTS, "conditions": "status"} if phases else _LISTS
    kept = {name: found for name, value in status.items() if (found := _readable(name, value, keys)) is not None}
    return body if kept == status else {**body, "status": kept}


def _readable(name: str, value: Any, keys: Mapping[str, str]) -> Any:
    """Returns what can be read of a field of the status, None for nothing. keys: of the items of lists."""
    if name.endswith("Time"):
        return value if _is_instant(value) else None
    if name == "state":
        # A queue's is a word, of other kinds an object.
        return value if isinstance(value, str) or _is_plain(value) else None
    if name not in keys:
        return value
    if isinstance(value, list):
        return [each for each in value if _is_item(name, each, keys[name])]
    # A JobFlow has its Jobs' conditions by name; some kinds count what others list.
    return value if isinstance(value, dict if name == "conditions" else int) else None


def _is_item(name: str, value: Any, key: str) -> bool:
    # A JobFlow's active flows are names.
    if name == "active" and isinstance(value, str):
        return True
    return _is_plain(value) and isinstance(value.get(key), str)


def _is_plain(value: Any) -> bool:
    """Returns True for an object whose texts are texts, and whose time is one."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name, ""), str) for name in _TEXTS):
        return False
    return not value.get("lastTransitionTime") or _is_instant(value["lastTransitionTime"])


def _is_instant(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(times.parse(value))
    except ValueError:
        return False
