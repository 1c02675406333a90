"""What is decided about a job before anything is done: Commands, suspension, policies, timers and the deadline.

One after the other changes the course, each seeing what those before it made of it; so one decision is as good as many.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.api.volcano.job import Delayed, LifecyclePolicy
from workers.api.volcano.podgroup import GIVEN_UP
from workers.controllers.volcano.job import phases, policies, timers
from workers.controllers.volcano.job import transitions as courses
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.controllers.volcano.job.policies import JobEvent
from workers.controllers.volcano.job.transitions import SUSPENDED, JobRequest, JobTransitions

#: What a policy for an exit code may say so that nothing is done about it.
_SILENT = frozenset(("", "SyncJob", "EnqueueJob"))


def requested(sight: ObservedJob, now: datetime) -> JobTransitions:
    """The course of the job after everything that has been asked for, and has happened."""
    course = courses.remembered(sight)
    course = _commanded(course, sight, now)
    course = _suspended(course, sight, now)
    course = _policed(course, sight, now)
    course = _overdue(course, sight, now)
    return replace(course, started=_started(course, now))


def deadline(sight: ObservedJob, course: JobTransitions) -> datetime | None:
    """When the job has been at work for too long; None: no limit, or it is not at work."""
    limit = sight.job.spec.active_deadline_seconds
    held = course.phase == "Restarting" and course.ready_at is None
    if limit is None or course.started is None or held or course.phase not in phases.AT_WORK:
        return None
    return course.started + timedelta(seconds=limit)


def _commanded(course: JobTransitions, sight: ObservedJob, now: datetime) -> JobTransitions:
    """Commands in the order of their creation. Each has its effect in the write that remembers its uid."""
    there = [command["metadata"]["uid"] for command in sight.commands]
    course = replace(course, handled=tuple(uid for uid in course.handled if uid in there))
    for command in sight.commands:
        if command["metadata"]["uid"] not in course.handled:
            course = _obeyed(course, command, sight, now)
    return course


def _obeyed(course: JobTransitions, command: Object, sight: ObservedJob, now: datetime) -> JobTransitions:
    name, action = command["metadata"]["name"], str(command.get("action") or "")
    course = replace(course, handled=(*course.handled, command["metadata"]["uid"]))
    meant = (command.get("target") or {}).get("uid")
    if meant and meant != sight.job.metadata.uid:
        return course.told("Warning", "CommandIgnored", f"Command {name} is for another Job of this name, now gone")
    if action == "ResumeJob" and sight.job.spec.suspend:
        return course.told("Warning", "CommandIgnored", f"Command {name}: the job is suspended by its spec")
    course = course.told("Normal", "CommandIssued", f"Command {name}: {action}")
    request = JobRequest(action, "CommandIssued", f"Command {name} asked for {action}")
    if not courses.does_anything(course, request, sight, now):
        return course.told("Normal", "CommandIgnored", f"{action} does nothing to a job that is {course.phase}")
    return courses.taken(course, request, sight, now)


def _suspended(course: JobTransitions, sight: ObservedJob, now: datetime) -> JobTransitions:
    """`spec.suspend` aborts the job, and brings it back where it was aborted so; that is no restart."""
    if sight.job.spec.suspend:
        if course.phase in ("Pending", "Running") or courses.waits(course, now):
            return courses.taken(course, JobRequest("AbortJob", SUSPENDED, "spec.suspend is true"), sight, now)
    elif course.phase == "Aborted" and course.reason == SUSPENDED:
        return course.moved("Pending", "Resumed", "spec.suspend is no longer true").told(
            "Normal", "Resumed", "the job is no longer suspended"
        )
    return course


def _policed(course: JobTransitions, sight: ObservedJob, now: datetime) -> JobTransitions:
    """Policies answer what has happened, unless it is about a pod that is to go already."""
    answers = sight.job.spec.policies or any(task.policies for task in sight.job.spec.tasks)
    found = policies.events(sight, now) if answers and course.phase in phases.AT_WORK else []
    pods = {pod.name: pod for pod in sight.pods}
    course = replace(course, timers=timers.running(course.timers, sight.pods))
    waiting: list[tuple[LifecyclePolicy, JobEvent]] = []
    for one in found:
        if course.version != sight.version or course.phase not in phases.AT_WORK:
            break
        policy = policies.chosen(sight.job.spec, one)
        if policy is None or _is_dealt_with(course, pods.get(one.pod or "")):
            continue
        request = _request(policy, one)
        if not courses.does_anything(course, request, sight, now):
            if request.action not in _SILENT and course.ignored is None:
                course = replace(course, ignored=f"{request.message}, which does nothing here")
            continue
        if policy.delay is not None and policy.delay > timedelta():
            waiting.append((policy, one))
            continue
        # An action ends timers of its level: what came before it must be among them.
        course = courses.taken(_delayed(course, waiting, found), request, sight, now)
        waiting.clear()
    return _delayed(course, waiting, found)


def _request(policy: LifecyclePolicy, one: JobEvent) -> JobRequest:
    message = f"{one.why}; the policy for {_cause(one, policy.exit_code)} is {policy.action}"
    return JobRequest(policy.action or "", one.event, message, one.task, one.pod, one.partition, waits=True)


def _delayed(
    course: JobTransitions, waiting: list[tuple[LifecyclePolicy, JobEvent]], found: list[JobEvent]
) -> JobTransitions:
    """Actions that wait for their policy's timeout."""
    started = timers.started(course.timers, waiting, found)
    if started is course.timers:
        return course
    known = set(map(timers.sort, course.timers))
    news = [policy for policy, one in waiting if (one.event, one.task, policy.action) not in known]
    course = replace(course, timers=started)
    for action, timeout in dict.fromkeys((policy.action, policy.timeout) for policy in news):
        course = course.told("Normal", "ExecuteAction", f"Execute action {action} after {timeout}")
    return course


def _cause(one: JobEvent, exit_code: int | None) -> str:
    return one.event if exit_code is None else f"exit code {exit_code}"


def _is_dealt_with(course: JobTransitions, pod: ObservedPod | None) -> bool:
    return pod is not None and any(courses.is_about(target, pod) for target in course.killing)


def _overdue(course: JobTransitions, sight: ObservedJob, now: datetime) -> JobTransitions:
    """Actions whose time has come, and the end of a job that has been at work, or has waited, for too long."""
    while timer := timers.due(course.timers, now):
        fired, left = timers.fired(course.timers, timer, now)
        course = replace(course, timers=left)
        for each in fired:
            course = courses.taken(course, _fired(each), sight, now)
    limit = deadline(sight, course)
    if limit is not None and now >= limit:
        text = f"at work since {times.render(course.started or now)}, for longer than activeDeadlineSeconds"
        course = courses.taken(course, JobRequest("TerminateJob", "DeadlineExceeded", text), sight, now)
    if course.phase == "Pending" and (why := sight.abandoned):
        # Its PodGroup is not asked any more: the job would wait for ever.
        course = courses.taken(course, JobRequest("TerminateJob", GIVEN_UP, why), sight, now)
    return course


def _fired(timer: Delayed) -> JobRequest:
    text = (
        f"{timer.event} of pod {timer.pod} was not over in time" if timer.pod else f"{timer.event} was not over in time"
    )
    return JobRequest(timer.action, timer.event, text, timer.task, timer.pod, timer.partition, waits=True)


def _started(course: JobTransitions, now: datetime) -> datetime | None:
    """Since when the job has been at work; it starts over when it was aborted."""
    if course.phase in ("Aborting", "Aborted"):
        return None
    return course.started or (now if course.phase == "Running" else None)
