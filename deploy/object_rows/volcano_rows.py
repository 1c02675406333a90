"""Rows of Volcano's seven kinds."""

from collections.abc import Mapping

from deploy.object_rows import queue_order
from deploy.object_rows.row import Summary, Tone, because, count, spec_of, status_of
from workers.api.kinds import Object

_JOB: Mapping[str, Tone] = {
    "Pending": "waiting",
    "Running": "active",
    "Completing": "active",
    "Completed": "ok",
    "Restarting": "warning",
    "Terminating": "warning",
    "Terminated": "error",
    "Failed": "error",
    "Aborting": "paused",
    "Aborted": "paused",
}
_FLOW: Mapping[str, Tone] = {
    "Pending": "waiting",
    "Running": "active",
    "Succeed": "ok",
    "Failed": "error",
    "Terminating": "warning",
    "Terminated": "error",
    "Scheduled": "ok",
}
_GROUP: Mapping[str, Tone] = {
    "Pending": "waiting",
    "Inqueue": "waiting",
    "Running": "active",
    "Completed": "ok",
    "Unknown": "warning",
}
_QUEUE: Mapping[str, Tone] = {"Open": "ok", "Closed": "paused", "Closing": "paused", "Unknown": "warning"}


def volcano_job(body: Object) -> Summary:
    """Returns the summary of a Volcano Job."""
    status = status_of(body)
    state = status.get("state") or {}
    phase = str(state.get("phase") or "Pending")
    names = {"pending": "pending", "running": "running", "done": "succeeded", "failed": "failed"}
    numbers = {shown: count(status.get(field)) for shown, field in names.items()}
    tone = _JOB.get(phase, "warning")
    message = because(state) if phase not in ("Running", "Completed") else ""
    ended = state.get("lastTransitionTime") if phase in ("Completed", "Failed", "Terminated", "Aborted") else None
    return Summary(phase, tone, message, numbers, last=ended)


def queue(body: Object) -> Summary:
    """Returns the summary of a Queue."""
    status = status_of(body)
    phase = str(status.get("state") or "Open")
    waiting = count(status.get("pending"))
    numbers = {
        "waiting": waiting,
        "pending": count(status.get("inqueue")),
        "running": count(status.get("running")),
        "done": count(status.get("completed")),
    }
    message = f"{waiting} PodGroup{'s' if waiting > 1 else ''} wait" if waiting else ""
    tone = _QUEUE.get(phase, "warning")
    return Summary(phase, "waiting" if tone == "ok" and waiting else tone, message, numbers)


def pod_group(body: Object) -> Summary:
    """Returns the summary of a PodGroup, with the reason why it waits."""
    status = status_of(body)
    phase = queue_order.phase(body)
    numbers = {"running": count(status.get("running")), "done": count(status.get("succeeded"))}
    numbers["failed"] = count(status.get("failed"))
    message = queue_order.why(body) if phase == queue_order.PENDING else ""
    return Summary(phase, _GROUP.get(phase, "warning"), message, numbers)


def job_flow(body: Object) -> Summary:
    """Returns the summary of a JobFlow."""
    spec, status = spec_of(body), status_of(body)
    phase = str((status.get("state") or {}).get("phase") or "Pending")
    listed = {"pending": "pendingJobs", "running": "runningJobs", "done": "completedJobs", "failed": "failedJobs"}
    numbers = {shown: len(status.get(field) or ()) for shown, field in listed.items()}
    ready = next((each for each in status.get("flowConditions") or () if each.get("type") == "Ready"), None)
    ends = (status.get("nextScheduleTime"), status.get("completionTime") or status.get("lastScheduleTime"))
    if spec.get("suspend") and phase not in ("Succeed", "Failed", "Terminated"):
        return Summary("Suspended", "paused", "it starts nothing further", numbers, *ends)
    if ready and ready.get("status") == "False" and _FLOW.get(phase) != "ok":
        return Summary(phase, "error", because(ready), numbers, *ends)
    return Summary(phase, _FLOW.get(phase, "warning"), "", numbers, *ends)


def job_template(body: Object) -> Summary:
    """Returns the summary of a JobTemplate."""
    return Summary("Ready", "ok", "", {"running": len(status_of(body).get("jobDependsOnList") or ())})


def bus_command(body: Object) -> Summary:
    """Returns the summary of a Command, which exists until it is carried out."""
    target = body.get("target") or {}
    return Summary("Issued", "waiting", f"{body.get('action')} for {target.get('kind')} {target.get('name')}")
