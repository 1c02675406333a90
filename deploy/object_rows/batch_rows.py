"""Rows of schedules, Jobs, workloads and pods."""

from datetime import UTC, datetime

from deploy.local.apiserver.printers import pod_summary
from deploy.object_rows import failure_reasons
from deploy.object_rows.row import Summary, because, count, spec_of, status_of
from workers.api import conditions
from workers.api.kinds import JOB, POD, Object

#: Any moment: the summary of a pod uses it for the age of restarts only, which rows leave out.
_EPOCH = datetime.fromtimestamp(0, UTC)
_BAD_ENDS = ("Failed", "TimedOut", "Deleted")


def schedule(body: Object) -> Summary:
    """Returns the summary of a ScheduledJob, or of a CronJob of either group."""
    spec, status = spec_of(body), status_of(body)
    active = list(status.get("active") or ())
    runs = [each for each in status.get("runs") or () if isinstance(each, dict)]
    outcomes = [each for each in status.get("outcomes") or () if isinstance(each, dict)]
    numbers = {"running": len(active) or len(runs)}
    if missed := count(status.get("missedRuns")):
        numbers["missed"] = missed
    upcoming, last = status.get("nextScheduleTime"), status.get("lastScheduleTime")
    ready = conditions.find(body, "Ready") or {}

    def is_in(phase: str, tone: str, message: str = "") -> Summary:
        return Summary(phase, tone, message, numbers, upcoming, last)  # type: ignore[arg-type]

    if spec.get("suspend"):
        return is_in("Suspended", "paused", "no further run starts")
    if ready.get("status") == "False":
        until = spec.get("suspendUntil")
        if until and "uspen" in str(ready.get("reason")):
            return is_in("Suspended", "paused", f"no run starts before {until}")
        return is_in("NotReady", "error", because(ready))
    if retrying := next((each for each in runs if each.get("outcome") == "Retrying"), None):
        return is_in("Retrying", "warning", because(retrying) or "a run failed and is tried again")
    if active or runs:
        return is_in("Running", "active")
    if outcomes and outcomes[-1].get("outcome") in _BAD_ENDS:
        return is_in("LastRunFailed", "warning", because(outcomes[-1]) or f"the last run: {outcomes[-1]['outcome']}")
    return is_in("Scheduled", "ok")


def job(body: Object) -> Summary:
    """Returns the summary of a batch/v1 Job."""
    spec, status = spec_of(body), status_of(body)
    running = count(status.get("active"))
    numbers = {"running": running, "done": count(status.get("succeeded")), "failed": count(status.get("failed"))}
    last = status.get("completionTime") or (conditions.find(body, "Failed") or {}).get("lastTransitionTime")

    def is_in(phase: str, tone: str, message: str = "") -> Summary:
        return Summary(phase, tone, message, numbers, last=last)  # type: ignore[arg-type]

    match conditions.finished(body):
        case "Complete":
            return is_in("Complete", "ok")
        case "Failed":
            return is_in("Failed", "error", failure_reasons.of(JOB, body))
    if body["metadata"].get("deletionTimestamp"):
        return is_in("Terminating", "waiting")
    if spec.get("suspend"):
        return is_in("Suspended", "paused")
    if conditions.holds(body, "FailureTarget"):
        return is_in("Failing", "warning", because(conditions.find(body, "FailureTarget")))
    if running and count(status.get("ready")):
        failed = numbers["failed"]
        return is_in("Running", "active", f"{failed} pod{'s' if failed > 1 else ''} failed before" if failed else "")
    return is_in("Pending", "waiting", "its pods have not started" if running else "it has no pods yet")


def workload(body: Object) -> Summary:
    """Returns the summary of a Deployment, StatefulSet or ReplicaSet."""
    spec, status = spec_of(body), status_of(body)
    wanted = count(spec.get("replicas")) if "replicas" in spec else 1
    ready = count(status.get("readyReplicas"))
    numbers = {"replicas": wanted, "running": ready, "pending": max(0, wanted - ready)}
    stuck = conditions.find(body, "Progressing") or {}
    failure = conditions.find(body, "ReplicaFailure") or {}
    if stuck.get("reason") == "ProgressDeadlineExceeded":
        return Summary("Stuck", "error", because(stuck), numbers)
    if failure.get("status") == "True":
        return Summary("Failing", "error", because(failure), numbers)
    if spec.get("paused"):
        return Summary("Paused", "paused", "changes are not rolled out", numbers)
    if not wanted:
        return Summary("ScaledToZero", "ok", "", numbers)
    if ready < wanted:
        return Summary("Progressing", "waiting", f"{ready} of {wanted} replicas are ready", numbers)
    return Summary("Available", "ok", "", numbers)


def pod(body: Object) -> Summary:
    """Returns the summary of a pod, in kubectl's words."""
    status = status_of(body)
    # kubectl's summary needs a spec, which a damaged object may lack.
    ready, word, _ = pod_summary.summary({**body, "spec": spec_of(body)}, _EPOCH)
    statuses = [each for each in status.get("containerStatuses") or () if isinstance(each, dict)]
    numbers = {"restarts": sum(count(each.get("restartCount")) for each in statuses)}
    why = failure_reasons.of(POD, body)
    if body["metadata"].get("deletionTimestamp"):
        return Summary(word, "waiting", why, numbers)
    match status.get("phase"):
        case "Succeeded":
            return Summary(word, "ok", "", numbers)
        case "Failed":
            return Summary(word, "error", why, numbers)
        case "Running":
            done, _, total = ready.partition("/")
            if why:
                return Summary(word, "error", why, numbers)
            text = "" if done == total else f"{ready} containers are ready"
            return Summary(word, "active" if done == total else "waiting", text, numbers)
    return Summary(word, "error" if why and not _waits_for_room(body) else "waiting", why, numbers)


def _waits_for_room(body: Object) -> bool:
    """Returns True if the pod only lacks a node: more room cures that."""
    return (conditions.find(body, "PodScheduled") or {}).get("status") == "False"
