"""What of a Volcano Job may change after its creation."""

from collections.abc import Iterator
from typing import Any

from workers.admission.findings import Finding
from workers.api.kinds import Object

#: Volcano's, then those that only Penstock has.
FREE = frozenset({"minAvailable", "priorityClassName"})
OURS = frozenset({"suspend", "activeDeadlineSeconds", "restartBackoff", "ttlSecondsAfterAborted"})
_FREE_IN_TASKS = frozenset({"replicas", "minAvailable"})
_RULE = "must not change: of a job only minAvailable, priorityClassName and its tasks' replicas and minAvailable may"


def forbidden(new: Object, old: Object) -> Iterator[Finding]:
    """The fields of a spec that changed and must not. Both specs are such as the schema accepts."""
    tasks, before = new.get("tasks") or [], old.get("tasks") or []
    if len(tasks) != len(before):
        yield Finding("spec.tasks", f"must stay as many as they are, {len(tasks)} != {len(before)}")
    else:
        for index, (task, known) in enumerate(zip(tasks, before, strict=True)):
            for field in _differing(task, known, _FREE_IN_TASKS):
                yield Finding(f"spec.tasks[{index}].{field}", _RULE)
    for field in _differing(new, old, FREE | OURS | {"tasks", "volumes"}):
        yield Finding(f"spec.{field}", _RULE)
    if _volumes(new) != _volumes(old):
        yield Finding("spec.volumes", _RULE)


def _volumes(spec: Object) -> list[Object]:
    """The volumes without the names of claims that a controller makes."""
    return [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in spec.get("volumes") or ()
    ]


def _differing(new: Object, old: Object, free: frozenset[str]) -> list[str]:
    """The names of the fields that differ; an absent field and a null are the same."""
    return [name for name in sorted({*new, *old} - free) if _sent(new.get(name)) != _sent(old.get(name))]


def _sent(value: Any) -> Any:
    """A value without the nulls in it."""
    if isinstance(value, dict):
        return {name: _sent(each) for name, each in value.items() if each is not None}
    return [_sent(each) for each in value] if isinstance(value, list) else value
