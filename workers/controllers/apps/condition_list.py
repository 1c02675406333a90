"""The list of conditions of an apps/v1 object, one of each type."""

from collections.abc import Sequence
from datetime import datetime

from workers.api import conditions, times
from workers.api.kinds import Object


def put(
    observed: Sequence[Object], type_: str, status: str, reason: str, message: str, now: datetime, *, updates: bool
) -> list[Object]:
    """Returns the conditions with this one set; one of the same status and reason stays unchanged.

    updates: the condition carries lastUpdateTime as well.
    """
    before = next((one for one in observed if one.get("type") == type_), None)
    if before is not None and (before.get("status"), before.get("reason")) == (status, reason):
        return list(observed)
    condition = conditions.moved({"type": type_, "status": status, "reason": reason, "message": message}, before, now)
    if updates:
        condition["lastUpdateTime"] = times.render(now)
    return [*drop(observed, type_), condition]


def drop(observed: Sequence[Object], type_: str) -> list[Object]:
    """Returns the conditions without this one."""
    return [one for one in observed if one.get("type") != type_]
