"""The actions that Commands, `spec.suspend`, policies, timers and deadlines request, applied before anything is done.

Each source sees the progress that the sources before it left, so one decision equals a sequence of them.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.api.volcano.job import Delayed, LifecyclePolicy
from workers.api.volcano.podgroup import GIVEN_UP
from workers.controllers.volcano.job import phases, policies, timers, transitions
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.controllers.volcano.job.policies import JobEvent
from workers.controllers.volcano.job.transitions import SUSPENDED, JobProgress, JobRequest

#: Actions of an exit code policy that do nothing.
_SILENT = frozenset(("", "SyncJob", "EnqueueJob"))


def requested(view: ObservedJob, now: datetime) -> JobProgress:
    """Returns the job's progress after all requested actions and all unanswered events."""
    progress = transitions.remembered(view)
    progress = _after_commands(progress, view, now)
    progress = _after_suspend(progress, view, now)
    progress = _after_policies(progress, view, now)
    progress = _after_deadlines(progress, view, now)
    return replace(progress, started=_started(progress, now))


def deadline(view: ObservedJob, progress: JobProgress) -> datetime | None:
    """Returns the end of `activeDeadlineSeconds`; None without a limit, or for a job that is not at work."""
    limit = view.job.spec.active_deadline_seconds
    # Restarting without a backoff loses an action that would end the job; the Pending phase after it does not.
    held = progress.phase == "Restarting" and not progress.backs_off
    if limit is None or progress.started is None or held or progress.phase not in phases.AT_WORK:
        return None
    return times.after(progress.started, times.duration(limit))


def _after_commands(progress: JobProgress, view: ObservedJob, now: datetime) -> JobProgress:
    """Applies Commands in the order of their creation. The write that stores a Command's uid is its effect."""
    there = [command["metadata"]["uid"] for command in view.commands]
    progress = replace(progress, handled=tuple(uid for uid in progress.handled if uid in there))
    for command in view.commands:
        if command["metadata"]["uid"] not in progress.handled:
            progress = _after_command(progress, command, view, now)
    return progress


def _after_command(progress: JobProgress, command: Object, view: ObservedJob, now: datetime) -> JobProgress:
    name, action = command["metadata"]["name"], str(command.get("action") or "")
    progress = replace(progress, handled=(*progress.handled, command["metadata"]["uid"]))
    meant = (command.get("target") or {}).get("uid")
    if meant and meant != view.job.metadata.uid:
        return progress.with_event(
            "Warning", "CommandIgnored", f"Command {name} is for another Job of this name, now gone"
        )
    if action == "ResumeJob" and view.job.spec.suspend:
        return progress.with_event("Warning", "CommandIgnored", f"Command {name}: the job is suspended by its spec")
    progress = progress.with_event("Normal", "CommandIssued", f"Command {name}: {action}")
    request = JobRequest(action, "CommandIssued", f"Command {name} asked for {action}")
    if not transitions.does_anything(progress, request, view):
        return progress.with_event(
            "Normal", "CommandIgnored", f"{action} does nothing to a job that is {progress.phase}"
        )
    return transitions.applied(progress, request, view, now)


def _after_suspend(progress: JobProgress, view: ObservedJob, now: datetime) -> JobProgress:
    """Aborts the job while `spec.suspend` is true and resumes it afterwards; that does not count as a restart."""
    if view.job.spec.suspend:
        if progress.phase in ("Pending", "Running") or progress.backs_off:
            return transitions.applied(progress, JobRequest("AbortJob", SUSPENDED, "spec.suspend is true"), view, now)
    elif progress.phase == "Aborted" and progress.reason == SUSPENDED:
        return progress.moved("Pending", "Resumed", "spec.suspend is no longer true").with_event(
            "Normal", "Resumed", "the job is no longer suspended"
        )
    return progress


def _after_policies(progress: JobProgress, view: ObservedJob, now: datetime) -> JobProgress:
    """Applies the policies to events, except events of pods that a kill already covers."""
    answers = view.job.spec.policies or any(task.policies for task in view.job.spec.tasks)
    found = policies.events(view, now) if answers and progress.phase in phases.AT_WORK else []
    pods = {pod.name: pod for pod in view.pods}
    progress = replace(progress, timers=timers.running(progress.timers, view.pods))
    waiting: list[tuple[LifecyclePolicy, JobEvent]] = []
    for one in found:
        if progress.version != view.version or progress.phase not in phases.AT_WORK:
            break
        policy = policies.chosen(view.job.spec, one)
        if policy is None or _is_killed_already(progress, pods.get(one.pod or "")):
            continue
        request = _request(policy, one)
        if not transitions.does_anything(progress, request, view):
            if request.action not in _SILENT and progress.ignored is None:
                progress = replace(progress, ignored=f"{request.message}, which does nothing here")
            continue
        if policy.delay is not None and policy.delay > timedelta():
            waiting.append((policy, one))
            continue
        # An action ends the timers of its level, so the timers of earlier events start first.
        progress = transitions.applied(_delayed(progress, waiting, found), request, view, now)
        waiting.clear()
    return _delayed(progress, waiting, found)


def _request(policy: LifecyclePolicy, one: JobEvent) -> JobRequest:
    cause = one.event if policy.exit_code is None else f"exit code {policy.exit_code}"
    message = f"{one.why}; the policy for {cause} is {policy.action}"
    return JobRequest(policy.action or "", one.event, message, one.task, one.pod, one.partition, waits=True)


def _delayed(
    progress: JobProgress, waiting: list[tuple[LifecyclePolicy, JobEvent]], found: list[JobEvent]
) -> JobProgress:
    """Starts the timers of policies with a timeout."""
    started = timers.started(progress.timers, waiting, found)
    if started is progress.timers:
        return progress
    known = set(map(timers.sort, progress.timers))
    news = [policy for policy, one in waiting if (one.event, one.task, policy.action) not in known]
    progress = replace(progress, timers=started)
    for action, timeout in dict.fromkeys((policy.action, policy.timeout) for policy in news):
        progress = progress.with_event("Normal", "ExecuteAction", f"Execute action {action} after {timeout}")
    return progress


def _is_killed_already(progress: JobProgress, pod: ObservedPod | None) -> bool:
    return pod is not None and any(transitions.is_about(target, pod) for target in progress.killing)


def _after_deadlines(progress: JobProgress, view: ObservedJob, now: datetime) -> JobProgress:
    """Applies due timers, the job's deadline, and the end of a gang that is never admitted."""
    while timer := timers.due(progress.timers, now):
        fired, left = timers.fired(progress.timers, timer, now)
        progress = replace(progress, timers=left)
        for each in fired:
            progress = transitions.applied(progress, _fired(each), view, now)
    limit = deadline(view, progress)
    if limit is not None and now >= limit:
        text = f"at work since {times.render(progress.started or now)}, for longer than activeDeadlineSeconds"
        progress = transitions.applied(progress, JobRequest("TerminateJob", "DeadlineExceeded", text), view, now)
    if progress.phase in ("Pending", "Running") and (why := view.abandoned):
        # The PodGroup is never checked again: the job would wait for ever.
        progress = transitions.applied(progress, JobRequest("TerminateJob", GIVEN_UP, why), view, now)
    return progress


def _fired(timer: Delayed) -> JobRequest:
    text = (
        f"{timer.event} of pod {timer.pod} was not over in time" if timer.pod else f"{timer.event} was not over in time"
    )
    return JobRequest(timer.action, timer.event, text, timer.task, timer.pod, timer.partition, waits=True)


def _started(progress: JobProgress, now: datetime) -> datetime | None:
    """Returns the start of the job's work; it is reset when the job is aborted."""
    if progress.phase in ("Aborting", "Aborted"):
        return None
    return progress.started or (now if progress.phase == "Running" else None)
