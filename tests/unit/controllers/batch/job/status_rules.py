"""Kubernetes' rules for changes of a Job's status, as its API server enforces them."""

from workers.api.kinds import Object

_COUNTS = ("active", "ready", "terminating", "succeeded", "failed")
_LASTING = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_ENDS = {"Failed", "Complete"}


def check(old: Object, new: Object, spec: Object) -> None:
    """Fails with the rule that is broken."""
    for field in _COUNTS:
        assert new.get(field, 0) >= 0, f"{field} is not negative"
    assert new.get("ready", 0) <= new.get("active", 0), "ready pods are active"
    _counters(old, new, spec)
    _uncounted(new)
    _conditions(old, new, spec)
    _times(old, new, spec)
    _finished(new, spec)
    _indexes(new, spec)


def _true(status: Object) -> set[str]:
    return {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}


def _counters(old: Object, new: Object, spec: Object) -> None:
    assert new.get("failed", 0) >= old.get("failed", 0), "failed never decreases"
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    assert elastic or new.get("succeeded", 0) >= old.get("succeeded", 0), "succeeded never decreases"


def _uncounted(new: Object) -> None:
    lists = new.get("uncountedTerminatedPods") or {}
    uids = [*lists.get("succeeded", ()), *lists.get("failed", ())]
    assert all(uids), "no uid is empty"
    assert len(uids) == len(set(uids)), "every uid once"


def _conditions(old: Object, new: Object, spec: Object) -> None:
    types = [each["type"] for each in new.get("conditions", ())]
    assert len(types) == len(set(types)), "one entry per condition"
    is_true, was_true = _true(new), _true(old)
    assert all(type_ in is_true for type_ in _LASTING if type_ in was_true), "an end is never taken back"
    assert not ("Complete" in is_true and is_true & {"Failed", "FailureTarget"}), "complete or failed"
    assert not ("SuccessCriteriaMet" in is_true and is_true & {"Failed", "FailureTarget"}), "success or failure"
    assert "Failed" not in is_true or "FailureTarget" in is_true, "Failed needs FailureTarget"
    assert "Complete" not in is_true or "SuccessCriteriaMet" in is_true, "Complete needs SuccessCriteriaMet"
    if "Complete" in was_true:
        assert "SuccessCriteriaMet" in was_true or "SuccessCriteriaMet" not in is_true, "never met after the end"


def _times(old: Object, new: Object, spec: Object) -> None:
    is_true, was_true = _true(new), _true(old)
    assert ("completionTime" in new) is ("Complete" in is_true), "completionTime goes with Complete"
    if "completionTime" in old:
        assert new.get("completionTime") == old["completionTime"], "completionTime never changes"
    if "completionTime" in new:
        assert new["completionTime"] >= new.get("startTime", ""), "completed after it started"
    if "startTime" in old and new.get("startTime") != old["startTime"]:
        resumed = "Suspended" in was_true and "Suspended" not in is_true
        assert spec.get("suspend") or resumed, "startTime changes only with a suspension"


def _finished(new: Object, spec: Object) -> None:
    if not _true(new) & _ENDS:
        return
    assert new.get("active", 0) + new.get("terminating", 0) == 0, "a finished Job has no pods left"
    assert not any((new.get("uncountedTerminatedPods") or {}).values()), "a finished Job has counted all"
    assert "startTime" in new or (spec.get("suspend") and spec.get("completions") == 0), "a finished Job has started"


def _indexes(new: Object, spec: Object) -> None:
    completed, failed = new.get("completedIndexes"), new.get("failedIndexes")
    assert not completed or spec.get("completionMode") == "Indexed", "only Indexed Jobs complete indexes"
    assert failed is None or spec.get("backoffLimitPerIndex") is not None, "indexes fail only with a limit of theirs"
    one, other = parsed(completed), parsed(failed)
    assert not one & other, "no index is completed and failed"
    assert all(index < (spec.get("completions") or 0) for index in one | other), "indexes are below completions"


def parsed(text: str | None) -> set[int]:
    """The indexes of a text, which must be in increasing order."""
    indexes: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        indexes += range(int(first), int(last or first) + 1)
    assert indexes == sorted(set(indexes)), "indexes increase"
    return set(indexes)
