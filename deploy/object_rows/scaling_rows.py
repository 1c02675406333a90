"""Rows of what Penstock scales: ScaledJobs, ScaledObjects, EventJobs and the objects they refer to."""

from deploy.object_rows.row import Summary, because, count, spec_of, status_of
from workers.api import bool_annotations, conditions
from workers.api.kinds import Object


def scaled(body: Object) -> Summary:
    """Returns the summary of a ScaledJob or ScaledObject, from KEDA's conditions."""
    status = status_of(body)
    ready = conditions.find(body, "Ready") or {}
    last = status.get("lastActiveTime")
    if conditions.holds(body, "Paused") or bool_annotations.is_paused(body):
        paused = conditions.find(body, "Paused") or {}
        return Summary("Paused", "paused", because(paused) if paused.get("status") == "True" else "", last=last)
    if ready.get("status") == "False":
        return Summary("NotReady", "error", because(ready), last=last)
    if conditions.holds(body, "Fallback"):
        return Summary("Fallback", "warning", because(conditions.find(body, "Fallback")), last=last)
    if ready.get("reason") == "PartialTriggerError":
        return Summary("PartlyReady", "warning", because(ready), last=last)
    if ready.get("status") != "True":
        return Summary("New", "waiting", "not measured yet")
    if alone := status.get("sourcesLeftAlone"):
        named = ", ".join(str(each.get("source")) for each in alone if isinstance(each, dict))
        return Summary("PartlyReady", "warning", f"asked less often because it fails: {named}", last=last)
    if conditions.holds(body, "Capped"):
        return Summary("Capped", "waiting", because(conditions.find(body, "Capped")), last=last)
    if conditions.holds(body, "Active"):
        return Summary("Active", "active", last=last)
    return Summary("Idle", "ok", last=last)


def event_job(body: Object) -> Summary:
    """Returns the summary of an EventJob: parked events come before everything but an error."""
    status = status_of(body)
    events = status.get("events") or {}
    names = ("waiting", "delayed", "running", "retrying", "parked", "done", "filtered", "duplicates")
    numbers = {name: count(events[name]) for name in names if name in events}
    if "waiting" in numbers:
        numbers["pending"] = sum(numbers.get(name, 0) for name in ("delayed", "retrying"))
    last = status.get("lastEventTime")
    ready = conditions.find(body, "Ready") or {}

    def is_in(phase: str, tone: str, message: str = "") -> Summary:
        return Summary(phase, tone, message, numbers, last=last)  # type: ignore[arg-type]

    if ready.get("status") == "False":
        return is_in("NotReady", "error", because(ready))
    if parked := numbers.get("parked"):
        return is_in(
            "Parked", "warning", f"{parked} event{'s' if parked > 1 else ''} parked after the last attempt failed"
        )
    if spec_of(body).get("suspend"):
        return is_in("Suspended", "paused", "events are taken in, and no Job is created")
    if not ready:
        return is_in("New", "waiting", "not polled yet")
    if numbers.get("running") or count(status.get("active")):
        return is_in("Active", "active")
    if waiting := sum(numbers.get(name, 0) for name in ("waiting", "delayed", "retrying")):
        return is_in("Waiting", "waiting", f"{waiting} event{'s' if waiting > 1 else ''} wait for room or their time")
    return is_in("Idle", "ok")


def scale_policy(body: Object) -> Summary:
    """Returns the summary of a ScalePolicy; the conditions of the ScaledJobs below it show its effect."""
    limit = spec_of(body).get("maxJobs")
    return Summary("Active", "ok", f"at most {limit} Jobs" if limit is not None else "")


def authentication(body: Object) -> Summary:
    """Returns the summary of a TriggerAuthentication. Its spec is not in the store."""
    status = status_of(body)
    used = [text for name in ("scaledjobs", "scaledobjects") if (text := status.get(name))]
    return Summary("InUse", "ok", f"used by {', '.join(map(str, used))}") if used else Summary("Unused", "ok")
