"""Conditions of apps/v1 objects: a list with one of each type."""

from collections.abc import Sequence
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions


def put(
    observed: Sequence[Object], type_: str, status: str, reason: str, message: str, now: datetime, *, updates: bool
) -> list[Object]:
    """The conditions with this one set. One that says the same for the same reason stays as it is.

    updates: the condition also carries when it was last updated, not only when its status changed.
    """
    before = next((one for one in observed if one.get("type") == type_), None)
    if before is not None and (before.get("status"), before.get("reason")) == (status, reason):
        return list(observed)
    condition = conditions.moved({"type": type_, "status": status, "reason": reason, "message": message}, before, now)
    if updates:
        condition["lastUpdateTime"] = times.render(now)
    return [*drop(observed, type_), condition]


def drop(observed: Sequence[Object], type_: str) -> list[Object]:
    """The conditions without this one."""
    return [one for one in observed if one.get("type") != type_]
