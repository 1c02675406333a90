"""The rules a Job's status must keep, whoever writes it: they make it safe to hand Jobs to other controllers.

A rule is applied only when a field it speaks about changes in this write, unless it says "always".
"""

from collections.abc import Iterator
from typing import Any

from deploy.local.apiserver import fields
from deploy.local.apiserver.fields import FieldError
from workers.api.kinds import Object

_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
_LASTING = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


def index_count(text: str, completions: int) -> int:
    """How many indexes a text like ``1,3-5,7`` stands for.

    Raises ValueError unless they are well-formed, strictly increasing and below `completions`.
    """
    return len(_indexes(text, completions))


def _indexes(text: str, completions: int) -> set[int]:
    found: set[int] = set()
    last = -1
    for part in text.split(",") if text else ():
        first, dash, end = part.partition("-")
        for number in (first, end) if dash else (first,):
            if not number.isascii() or not number.isdigit():
                raise ValueError(f'cannot convert string to integer for index: "{number}"')
        low, high = int(first), int(end or first)
        if low <= last or (dash and high <= low):
            raise ValueError(
                f"non-increasing order, previous: {max(last, low if low > last else last)}, current: {low}"
            )
        if high >= completions:
            raise ValueError(f'too large index: "{high}"')
        found.update(range(low, high + 1))
        last = high
    return found


def _is(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions") or ())


def validate(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with a write of a Job's status; both are whole Jobs."""
    now, before = new.get("status") or {}, old.get("status") or {}
    changed = {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
    spec = new["spec"]
    return [
        *_counters(now, before, spec, changed),
        *_uncounted(now),
        *_conditions(now, before, spec),
        *_times(now, before, changed),
        *_start(now, before, spec),
        *_finished(now, spec, changed),
        *_index_texts(now, spec, changed),
    ]


def _counters(now: Object, before: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    for field in _COUNTERS:
        yield from fields.non_negative(f"status.{field}", now.get(field))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        value, least = now.get(field, 0), before.get(field, 0)
        if value < least and not (field == "succeeded" and elastic):
            yield fields.invalid(f"status.{field}", value, f"cannot decrease the {field} counter")
    ready = now.get("ready")
    if changed & {"ready", "active"} and ready is not None and ready > now.get("active", 0):
        yield fields.invalid("status.ready", ready, "cannot set more ready pods than active")


def _uncounted(now: Object) -> Iterator[FieldError]:
    lists = now.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(lists.get(field) or ()):
            place = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                yield fields.invalid(place, uid, "must not be empty")
            elif uid in seen:
                yield fields.duplicate(place, uid)
            seen.add(uid)


def _conditions(now: Object, before: Object, spec: Object) -> Iterator[FieldError]:
    place = "status.conditions"

    def refuse(sentence: str) -> FieldError:
        return fields.invalid(place, now.get("conditions") or [], sentence)

    for kind in _LASTING:
        if _is(before, kind) and not _is(now, kind):
            yield refuse(f"cannot disable the terminal {kind}=True condition")
    complete, failed = _is(now, "Complete"), _is(now, "Failed")
    target, met = _is(now, "FailureTarget"), _is(now, "SuccessCriteriaMet")
    for one, other, both in (
        ("Complete", "Failed", complete and failed),
        ("Complete", "FailureTarget", complete and target),
        ("SuccessCriteriaMet", "Failed", met and failed),
        ("SuccessCriteriaMet", "FailureTarget", met and target),
    ):
        if both:
            yield refuse(f"cannot set {one}=True and {other}=True conditions")
    if failed and not target and not _is(before, "Failed"):
        yield refuse("cannot set Failed=True condition without the FailureTarget=true condition")
    if complete and not met and (not _is(before, "Complete") or spec.get("successPolicy") is not None):
        yield refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if met and _is(before, "Complete") and not _is(before, "SuccessCriteriaMet"):
        yield refuse("cannot add SuccessCriteriaMet=True to a Job that is complete without it")


def _times(now: Object, before: Object, changed: set[str]) -> Iterator[FieldError]:
    if not changed & {"completionTime", "conditions", "startTime"}:
        return
    place, end, start = "status.completionTime", now.get("completionTime"), now.get("startTime")
    if _is(now, "Complete") and end is None:
        yield fields.required(place, "completionTime is required for Complete jobs")
    if end is not None and not _is(now, "Complete"):
        yield fields.invalid(place, end, "completionTime cannot be set when there is no Complete=True condition")
    if before.get("completionTime") is not None and end != before["completionTime"]:
        yield fields.invalid(place, end, "field is immutable")
    if end is not None and start is not None and end < start:
        yield fields.invalid(place, end, "completionTime cannot be set before startTime")


def _start(now: Object, before: Object, spec: Object) -> Iterator[FieldError]:
    if before.get("startTime") is None or now.get("startTime") == before["startTime"]:
        return
    resumed = _is(before, "Suspended") and not _is(now, "Suspended")
    if not spec.get("suspend") and not resumed:
        yield fields.required("status.startTime", "startTime cannot be removed or changed for unsuspended job")


def _finished(now: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    if not (_is(now, "Complete") or _is(now, "Failed")):
        return
    if changed & {"conditions", "active"} and now.get("active", 0) > 0:
        yield fields.invalid("status.active", now["active"], "active>0 is invalid for finished job")
    if changed & {"conditions", "terminating"} and (now.get("terminating") or 0) > 0:
        yield fields.invalid("status.terminating", now["terminating"], "terminating>0 is invalid for finished job")
    lists: dict[str, Any] = now.get("uncountedTerminatedPods") or {}
    if changed & {"conditions", "uncountedTerminatedPods"} and any(lists.values()):
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        yield fields.invalid("status.uncountedTerminatedPods", lists, detail)
    nothing_to_do = spec.get("suspend") and spec.get("completions") == 0
    if changed & {"conditions", "startTime"} and now.get("startTime") is None and not nothing_to_do:
        yield fields.required("status.startTime", "startTime is required for finished job")


def _index_texts(now: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    if not changed & {"completedIndexes", "failedIndexes"}:
        return
    completions = spec.get("completions") or 0
    sets: dict[str, set[int]] = {}
    for field, allowed, detail in (
        (
            "completedIndexes",
            spec.get("completionMode") == "Indexed",
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        ),
        (
            "failedIndexes",
            spec.get("backoffLimitPerIndex") is not None,
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ),
    ):
        text = now.get(field)
        if text is None or (field == "completedIndexes" and not text):
            continue
        if not allowed:
            yield fields.invalid(f"status.{field}", text, detail)
            continue
        try:
            sets[field] = _indexes(text, completions)
        except ValueError as error:
            yield fields.invalid(f"status.{field}", text, f"error parsing {field}: {error}")
    if len(sets) == 2 and sets["completedIndexes"] & sets["failedIndexes"]:
        detail = "failedIndexes and completedIndexes cannot overlap"
        yield fields.invalid("status.failedIndexes", now["failedIndexes"], detail)
