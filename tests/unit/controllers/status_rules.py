"""What an API server accepts as a change of a Job's status (Kubernetes' rules for every writer)."""

from workers.api.kinds import Object

_LASTING = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


def check(old: Object, new: Object, spec: Object) -> None:
    """Fails with the rule that is broken."""
    is_true = {each["type"] for each in new.get("conditions", ()) if each["status"] == "True"}
    was_true = {each["type"] for each in old.get("conditions", ()) if each["status"] == "True"}
    types = [each["type"] for each in new.get("conditions", ())]
    assert len(types) == len(set(types)), "one entry per condition"
    for field in ("active", "ready", "terminating", "succeeded", "failed"):
        assert new.get(field, 0) >= 0, f"{field} is not negative"
    assert new.get("failed", 0) >= old.get("failed", 0), "failed never decreases"
    assert new.get("succeeded", 0) >= old.get("succeeded", 0), "succeeded never decreases"
    assert new.get("ready", 0) <= new.get("active", 0), "ready pods are active"
    assert all(type_ in is_true for type_ in _LASTING if type_ in was_true), "an end is never taken back"
    assert not ("Complete" in is_true and is_true & {"Failed", "FailureTarget"}), "complete or failed"
    assert not ("SuccessCriteriaMet" in is_true and is_true & {"Failed", "FailureTarget"}), "success or failure"
    assert "Failed" not in is_true or "FailureTarget" in is_true, "Failed needs FailureTarget"
    assert "Complete" not in is_true or "SuccessCriteriaMet" in is_true, "Complete needs SuccessCriteriaMet"
    assert ("completionTime" in new) is ("Complete" in is_true), "completionTime goes with Complete"
    if is_true & {"Failed", "Complete"}:
        assert new.get("active", 0) + new.get("terminating", 0) == 0, "a finished Job has no pods left"
        assert "startTime" in new or spec.get("completions") == 0, "a finished Job has started"
    if "startTime" in old and new.get("startTime") != old["startTime"]:
        resumed = "Suspended" in was_true and "Suspended" not in is_true
        assert spec.get("suspend") or resumed, "startTime changes only with a suspension"
    if "completionTime" in new:
        assert new["completionTime"] >= new.get("startTime", ""), "completed after it started"
