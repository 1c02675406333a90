"""The rules of a Job's status. They hold for every writer, which makes `spec.managedBy` safe.

Most rules apply only when their fields change in this write: a stored fault of an older server must not block later
writes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from workers.api.kinds import Object

_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
_CONDITIONS = "status.conditions"
#: Conditions that stay once they are true, and how a write that drops one is refused.
_LASTING = {
    "Failed": "cannot disable the terminal Failed=True condition",
    "Complete": "cannot disable the terminal Complete=True condition",
    "FailureTarget": "cannot disable the terminal FailureTarget=True condition",
    "SuccessCriteriaMet": "cannot disable the SuccessCriteriaMet=True condition",
}
#: Conditions that exclude each other, and whether only a write that changes one of them is refused.
_EXCLUSIVE = (
    ("Complete", "Failed", True),
    ("Complete", "FailureTarget", True),
    ("SuccessCriteriaMet", "Failed", False),
    ("SuccessCriteriaMet", "FailureTarget", False),
)
#: Digits of the largest number that the real server can read.
_DIGITS = 19

#: First and last index, both included.
Interval = tuple[int, int]


def index_count(text: str, completions: int) -> int:
    """Returns the number of indexes in a text like ``1,3-5,7``.

    Raises ValueError unless they are well-formed, strictly increasing and below `completions`.
    """
    return sum(last - first + 1 for first, last in _intervals(text, completions))


def _intervals(text: str, completions: int) -> list[Interval]:
    """The indexes as intervals: there may be billions of them."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if found and first <= found[-1][1]:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, last))
    return found


def _interval(text: str, completions: int) -> Interval:
    parts = text.split("-")
    if len(parts) > 2:
        raise ValueError(
            f"the fragment {field_errors.shown(text)} violates the requirement that an index interval can have at most "
            "two parts separated by '-'"
        )
    first, last = _index(parts[0], completions), _index(parts[-1], completions)
    if len(parts) == 2 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"cannot convert string to integer for index: {field_errors.shown(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {field_errors.shown(text)}")
    return int(text)


def _common(one: Sequence[Interval], other: Sequence[Interval]) -> int | None:
    """The first index that is in both."""
    left, right = 0, 0
    while left < len(one) and right < len(other):
        (low, high), (start, end) = one[left], other[right]
        if low <= end and start <= high:
            return max(low, start)
        left, right = (left + 1, right) if high < start else (left, right + 1)
    return None


def holds(status: Object, kind: str) -> bool:
    """True if the condition of this type is true."""
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions") or ())


def _done(status: Object) -> bool:
    return holds(status, "Complete") or holds(status, "Failed")


def validate(new: Object, old: Object) -> list[FieldError]:
    """Returns the errors of a write of a Job's status; both arguments are whole Jobs."""
    now, before = new.get("status") or {}, old.get("status") or {}
    changed = {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
    changed |= {kind for kind in _LASTING if holds(now, kind) != holds(before, kind)}
    if _done(now) != _done(before):
        changed.add("finished")
    spec = new["spec"]
    return [
        *_counters(now, before, spec, changed),
        *_uncounted(now),
        *_conditions(now, before, spec, changed),
        *_times(now, before, changed),
        *_start(now, before, spec),
        *_finished(now, spec, changed),
        *_index_texts(now, spec, changed),
    ]


def _counters(now: Object, before: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    for field in _COUNTERS:
        yield from field_errors.non_negative(f"status.{field}", now.get(field))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        value, least = now.get(field, 0), before.get(field, 0)
        if value < least and not (field == "succeeded" and elastic):
            yield field_errors.invalid(f"status.{field}", value, f"cannot decrease the {field} counter")
    ready = now.get("ready")
    if changed & {"ready", "active"} and ready is not None and ready > now.get("active", 0):
        yield field_errors.invalid("status.ready", ready, "cannot set more ready pods than active")


def _uncounted(now: Object) -> Iterator[FieldError]:
    lists = now.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(lists.get(field) or ()):
            place = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                yield field_errors.invalid(place, uid, "must not be empty")
            elif uid in seen:
                yield field_errors.duplicate(place, uid)
            seen.add(uid)


def _conditions(now: Object, before: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    def refuse(sentence: str) -> FieldError:
        return field_errors.invalid(_CONDITIONS, field_errors.OMITTED, sentence)

    for kind, sentence in _LASTING.items():
        if holds(before, kind) and not holds(now, kind):
            yield refuse(sentence)
    for one, other, lenient in _EXCLUSIVE:
        if holds(now, one) and holds(now, other) and (not lenient or changed & {one, other}):
            yield refuse(f"cannot set {one}=True and {other}=true conditions")
    if changed & {"Failed", "FailureTarget"} and holds(now, "Failed") and not holds(now, "FailureTarget"):
        yield refuse("cannot set Failed=True condition without the FailureTarget=true condition")
    if holds(now, "Complete") and not holds(now, "SuccessCriteriaMet"):
        if changed & {"Complete", "SuccessCriteriaMet"}:
            yield refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
        if spec.get("successPolicy") is not None:
            yield refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    if "SuccessCriteriaMet" in changed and holds(now, "SuccessCriteriaMet") and holds(before, "Complete"):
        yield refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _times(now: Object, before: Object, changed: set[str]) -> Iterator[FieldError]:
    place, end, start = "status.completionTime", now.get("completionTime"), now.get("startTime")
    complete = holds(now, "Complete")
    if changed & {"Complete", "completionTime"}:
        if complete and end is None:
            yield field_errors.required(place, "completionTime is required for Complete jobs")
        if end is not None and not complete:
            yield field_errors.invalid(place, end, "cannot set completionTime when there is no Complete=True condition")
    if None not in (end, before.get("completionTime")) and "completionTime" in changed:
        yield field_errors.invalid(place, end, "completionTime cannot be mutated")
    if changed & {"startTime", "completionTime"} and end is not None and start is not None and end < start:
        yield field_errors.invalid(place, end, "completionTime cannot be set before startTime")


def _start(now: Object, before: Object, spec: Object) -> Iterator[FieldError]:
    if before.get("startTime") is None or now.get("startTime") == before["startTime"]:
        return
    resumed = holds(before, "Suspended") and not holds(now, "Suspended")
    if not spec.get("suspend") and not resumed:
        detail = "field is immutable for unsuspended job once set"
        yield field_errors.invalid("status.startTime", now.get("startTime"), detail)


def _finished(now: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    if not _done(now):
        return
    if changed & {"finished", "active"} and now.get("active", 0) > 0:
        yield field_errors.invalid("status.active", now["active"], "active>0 is invalid for finished job")
    if changed & {"finished", "terminating"} and (now.get("terminating") or 0) > 0:
        yield field_errors.invalid(
            "status.terminating", now["terminating"], "terminating>0 is invalid for finished job"
        )
    lists: dict[str, Any] = now.get("uncountedTerminatedPods") or {}
    if changed & {"finished", "uncountedTerminatedPods"} and any(lists.values()):
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        yield field_errors.invalid("status.uncountedTerminatedPods", lists, detail)
    nothing_to_do = spec.get("suspend") and spec.get("completions") == 0
    if changed & {"finished", "startTime"} and now.get("startTime") is None and not nothing_to_do:
        yield field_errors.required("status.startTime", "startTime is required for finished job")


def _index_texts(now: Object, spec: Object, changed: set[str]) -> Iterator[FieldError]:
    completed, failed = now.get("completedIndexes") or "", now.get("failedIndexes")
    completions = spec.get("completions") or 0
    if "completedIndexes" in changed and completed:
        if spec.get("completionMode") == "Indexed":
            yield from _form("completedIndexes", completed, completions)
        else:
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield field_errors.invalid("status.completedIndexes", completed, detail)
    if "failedIndexes" in changed and failed is not None:
        if spec.get("backoffLimitPerIndex") is not None:
            yield from _form("failedIndexes", failed, completions)
        else:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield field_errors.invalid("status.failedIndexes", failed, detail)
    if changed & {"completedIndexes", "failedIndexes"} and completed and failed:
        try:
            both = _common(_intervals(completed, completions), _intervals(failed, completions))
        except ValueError:
            return  # said already, or of no concern to this write
        if both is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield field_errors.invalid("status.failedIndexes", failed, detail)


def _form(field: str, text: str, completions: int) -> Iterator[FieldError]:
    try:
        _intervals(text, completions)
    except ValueError as error:
        yield field_errors.invalid(f"status.{field}", text, f"error parsing {field}: {error}")
