"""The pods of a job at work: the objects they need, surplus pods, missing pods, and `dependsOn` between tasks."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from workers.api.kinds import POD, POD_GROUP, PRIORITY_CLASS, Object, Ref, ref_of
from workers.api.references import OUT_OF_SYNC, is_gated
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job import names, plugins, podgroup, pods, volumes
from workers.controllers.volcano.job.killing import BATCH, deletion, is_plugin
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod, queue_of
from workers.controllers.volcano.job.phases import Place
from workers.controllers.volcano.job.status import MESSAGE
from workers.controllers.volcano.job.transitions import JobProgress
from workers.controllers.volcano.podgroup.group import COMPLETED, GroupGrant
from workers.decision.plan import CountMetric, Create, Patch, RecordEvent, Step, Together

#: Interval of checks for a queue or a foreign claim: their creation does not notify the job.
RECHECK = timedelta(seconds=5)
_GROUP_ERROR = RecordEvent("Warning", "PodGroupError", "Error making the PodGroup: {error}")
_PLUGIN_ERROR = RecordEvent("Warning", "PluginError", "Error making what plugins need: {error}")


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """The reason why pods are not created.

    event: the reason of its Event; None for a normal wait. subject: the beginning of the message, without the numbers
    that change while the problem stays the same; None for the whole message.
    """

    event: str | None
    reason: str
    message: str
    subject: str | None = None

    def is_said(self, message: str | None) -> bool:
        """Returns True if a status has this problem already. message: of its state, which may be cut off."""
        known = message or ""
        return known == self.message[:MESSAGE] if self.subject is None else known.startswith(self.subject[:MESSAGE])


@dataclass(frozen=True, slots=True)
class TaskWork:
    """The work of one plan.

    first: creates what pods need. victims: surplus pods. made: task and index of new pods; making: the steps for them.
    lost: pods that are never created. resources: `controlledResources`. back: time of the next reconcile.
    """

    first: tuple[Step, ...] = ()
    victims: tuple[ObservedPod, ...] = ()
    made: tuple[Place, ...] = ()
    making: tuple[Step, ...] = ()
    lost: int = 0
    resources: Mapping[str, str] | None = None
    problem: TaskProblem | None = None
    back: datetime | None = None


def work(view: ObservedJob, progress: JobProgress, site: Site, now: datetime) -> TaskWork:
    """Returns the work that a Pending, Running or Restarting job needs now.

    A Restarting job only gets missing pods: what they need was kept, or is created again in Pending. Raises
    PluginError, or ValueError for a malformed quantity.
    """
    missing = _missing(view)
    if progress.phase == "Restarting":
        return _pods(view, progress, site, now) if view.group else TaskWork()
    claims = volumes.claims(view.job, view.relatives)
    resources = {**plugins.resources(view.job), **claims.resources}
    if missing and not view.group:
        return TaskWork(problem=missing, back=now + RECHECK)
    # Like Volcano, only the initiation of a Pending job looks for claims; one at work keeps running without.
    if claims.problem and (not view.group or progress.phase == "Pending"):
        return TaskWork(problem=TaskProblem("PVCError", "PVCNotFound", claims.problem), back=now + RECHECK)
    first = tuple(_needs(view, site, claims))
    # A delayed action may still recreate failed pods.
    lost = 0 if progress.timers else unmade(view.job, _by_name(view))
    if _group_waits(view):
        waits = _waiting(view, lost) if lost else _group_problem(view)
        return TaskWork(first=first, lost=lost, resources=resources, problem=waits)
    done = _pods(view, progress, site, now, lost)
    problem, back = missing or _waiting(view, lost), done.back or (now + RECHECK if missing else None)
    return replace(done, first=first, lost=lost, resources=resources, problem=problem, back=back)


def _missing(view: ObservedJob) -> TaskProblem | None:
    if view.queue is not None:
        return None
    return TaskProblem("PodGroupError", "QueueNotFound", f"queue {queue_of(view.body).name} does not exist")


def _waiting(view: ObservedJob, lost: int) -> TaskProblem | None:
    """Returns the problem that names the waiting tasks. lost: number of pods that wait in vain."""
    there = _by_name(view)
    if lost:
        return TaskProblem("DependencyFailed", "DependencyFailed", stalled_message(view.job, there))
    found = {task.name: waiting_for(view.job, task, there) for task in view.job.spec.tasks}
    texts = [f"task {name} waits for {', '.join(late)}" for name, late in found.items() if late]
    return TaskProblem(None, "WaitsForTasks", "; ".join(texts)) if texts else None


def _needs(view: ObservedJob, site: Site, claims: volumes.JobVolumeClaims) -> Iterator[Step]:
    """Yields the steps that create what pods need: plugins' objects, claims and the PodGroup."""
    job = view.job
    forwarded = bool(((view.queue or {}).get("spec") or {}).get("extendClusters"))
    if forwarded and not pods.is_forwarded(job):
        body = {"metadata": {"annotations": {pods.FORWARDING: "true"}}}
        yield Patch(view.ref, body, view.body["metadata"]["resourceVersion"])
    secrets = () if _were_made(view) else plugins.secrets(job, site)
    attached = (*secrets, *plugins.repairs(job, site, view.attached))
    if attached:
        yield Together(attached, otherwise=_PLUGIN_ERROR)
    if claims.making:
        yield Together(claims.making, otherwise=RecordEvent("Warning", "PVCError", "Error creating claims: {error}"))
    yield from _group(view)


def _were_made(view: ObservedJob) -> bool:
    """Returns True if the status lists plugins' objects of this start of the job."""
    return any(map(is_plugin, view.memory.controlled_resources or ()))


def _group(view: ObservedJob) -> Iterator[Step]:
    job, later = _asked(view)
    wanted = podgroup.wanted(job, priorities(view), later)
    if view.group is None:
        if not any(group["metadata"]["name"] == names.group(view.job) for group in view.groups):
            yield Together((Create(POD_GROUP, wanted),), otherwise=_GROUP_ERROR)
    else:
        yield from _patched(view.group, wanted)


def shrunk(view: ObservedJob) -> Iterator[Step]:
    """Yields the patch of the PodGroup of a job that restarts, if the job asks for a smaller gang by now.

    A restart may wait for hours, and its queue counts the gang. The tasks of the gang stay the same: those that wait
    for pods which the restart deletes are in it again when the job is Pending, and so is a larger gang.
    """
    spec = (view.group or {}).get("spec") or {}
    counted = spec.get("minTaskMember")
    later = {task.name for task in view.job.spec.tasks if counted and task.name not in counted}
    if view.group is not None and podgroup.members(view.job, later) < int(spec.get("minMember") or 0):
        yield from _patched(view.group, podgroup.wanted(view.job, priorities(view), later))


def _patched(group: Object, wanted: Object) -> Iterator[Step]:
    if patch := podgroup.patch(group, wanted):
        version = group["metadata"]["resourceVersion"]
        yield Together((Patch(ref_of(POD_GROUP, group), patch, version),), otherwise=_GROUP_ERROR)


def _asked(view: ObservedJob) -> tuple[Job, Set[str]]:
    """Returns the job as its gang asks for it, and the tasks outside the gang because of `dependsOn`.

    A task that has started is in the gang, even if a task that it depended on has failed since, but without its
    missing pods, which `dependsOn` holds back, perhaps for ever: a gang with them could not be whole, and room would be
    kept for them. A task with gated pods that can never get its missing ones keeps its size: it is not admitted yet,
    and `_broken` says whether those pods go.
    """
    job, there = view.job, _by_name(view)
    waiting, started = waiting_tasks(job, there), {pod.task for pod in view.pods}
    held = waiting & started
    if gated := held & {pod.task for pod in view.pods if pod.gated}:
        held -= gated & stalled(job, there).keys()
    if held:
        tasks = tuple(_as_made(job, task, there) if task.name in held else task for task in job.spec.tasks)
        least = min(job.spec.gang, sum(task.replicas for task in tasks))
        job = job.model_copy(update={"spec": job.spec.model_copy(update={"tasks": tasks, "min_available": least})})
    return job, waiting - started


def _as_made(job: Job, task: Task, there: Mapping[str, Object]) -> Task:
    """Returns the task with the pods that exist and may be of the gang: of the gated ones, those of the lowest indexes.

    there: the job's pods by name.
    """
    found = ((index, there.get(names.pod(job, task, index))) for index in range(task.replicas))
    made = [(index, is_gated(pod)) for index, pod in found if pod is not None]
    number = sum(not gated for _, gated in made)
    for index, gated in made:
        number += gated and index <= number
    return task.model_copy(update={"replicas": number, "min_available": min(task.gang, number)})


def priorities(view: ObservedJob) -> dict[str, int]:
    """Returns the values of the observed PriorityClasses by name."""
    return {
        ref.name: int(body.get("value") or 0)
        for ref, body in view.relatives.items()
        if ref.kind == PRIORITY_CLASS and body is not None
    }


def priority_classes(tasks: object) -> tuple[Ref, ...]:
    """Returns the PriorityClasses that the tasks' templates name. tasks: as in the manifest."""
    found: list[str] = []
    for task in tasks if isinstance(tasks, list | tuple) else ():
        name = ((task.get("template") or {}).get("spec") or {}).get("priorityClassName")
        found += [name] if isinstance(name, str) and name else []
    return tuple(Ref(PRIORITY_CLASS, "", name) for name in dict.fromkeys(found))


def _group_waits(view: ObservedJob) -> bool:
    """Returns True until the gang is admitted: no pod is created or deleted before."""
    return view.group is None or view.group_phase in (None, "Pending")


def _group_problem(view: ObservedJob) -> TaskProblem | None:
    """Returns the reason of the newest true condition of the PodGroup."""
    holding = [
        one for one in ((view.group or {}).get("status") or {}).get("conditions") or () if one.get("status") == "True"
    ]
    newest = max(holding, key=lambda one: one.get("lastTransitionTime") or "", default=None)
    if newest is None or newest.get("type") == "Scheduled":
        return None
    reason, message = newest.get("reason"), newest.get("message")
    name = f"{view.job.metadata.namespace}:{view.job.metadata.name}"
    why = ": ".join(text for text in (reason, message) if text) or "no reason is given"
    if reason == "NotEnoughTasks":
        # The job creates its own pods after the admission.
        return TaskProblem(None, "PodGroupPending", f"PodGroup {name} is not ready, reason: {why}")
    subject = f"PodGroup {name} unschedulable, reason: {reason}: " if reason and message else None
    return TaskProblem("PodGroupPending", "PodGroupPending", f"PodGroup {name} unschedulable, reason: {why}", subject)


def _pods(view: ObservedJob, progress: JobProgress, site: Site, now: datetime, lost: int = 0) -> TaskWork:
    """Returns the surplus pods, and the missing pods that may be created. lost: number of pods that wait in vain."""
    if _group_waits(view):
        return TaskWork()
    replicas = {task.name: task.replicas for task in view.job.spec.tasks}
    gang = _gang(view, progress)
    broken = _broken(view, gang) if lost else frozenset()
    victims = tuple(
        pod
        for pod in view.pods
        if not pod.leaving
        and (_is_surplus(pod, replicas.get(pod.task, 0), progress.version) or (pod.gated and pod.task in broken))
    )
    places = list(islice(_free(view, gang), BATCH + 1)) if view.queue is not None else []
    made = tuple(places[:BATCH])
    bodies = tuple(_create(view, progress, site, place, gang) for place in made)
    event = RecordEvent("Warning", "FailedCreate", "Error creating pods: {error}")
    late = CountMetric("vcjob_pod_latency", max(0.0, (now - view.created).total_seconds() * 1000), times=len(bodies))
    making = (*_secrets(view, site), Together(bodies, otherwise=event), late) if bodies else ()
    more = len(places) > BATCH or len(victims) > BATCH
    return TaskWork(victims=victims, made=made, making=(*deletion(victims), *making), back=now if more else None)


def _broken(view: ObservedJob, gang: Mapping[str, int]) -> Set[str]:
    """Returns the tasks without which the gang can never be whole: gated pods of theirs would wait for ever."""
    if sum(pod.placed and not pod.leaving for pod in view.pods) >= sum(gang.values()):
        return frozenset()
    there = _by_name(view)
    found = (task for name in stalled(view.job, there) if (task := view.job.spec.task(name)) is not None)
    return frozenset(
        task.name
        for task in found
        if any(names.pod(view.job, task, index) not in there for index in range(gang.get(task.name, 0)))
    )


def _secrets(view: ObservedJob, site: Site) -> Iterator[Step]:
    """Yields the creation of the plugins' Secrets. Secrets are not observed, so every plan with new pods repeats it."""
    if _were_made(view) and (wanted := plugins.secrets(view.job, site)):
        yield Together(wanted, otherwise=_PLUGIN_ERROR)


def _is_surplus(pod: ObservedPod, replicas: int, version: int) -> bool:
    """Returns True for a pod beyond the task's replicas, marked out of sync, or unfinished and of an old version.

    The last may come from a process that was cut off while it created pods, and created them after all.
    """
    if pod.index is None or pod.index >= replicas or pod.given_up:
        return True
    return pod.version < version and not pod.ended


def _free(view: ObservedJob, gang: Mapping[str, int]) -> Iterator[Place]:
    """Yields task and index of each missing pod of the tasks that may start, the gang's pods first."""
    there = _by_name(view)
    ready = [task for task in view.job.spec.tasks if may_start(view.job, task, there)]
    first = [(task, range(min(gang.get(task.name, 0), task.replicas))) for task in ready]
    rest = [(task, range(len(indexes), task.replicas)) for task, indexes in first]
    for task, indexes in (*first, *rest):
        for index in indexes:
            if names.pod(view.job, task, index) not in there:
                yield task.name, index


def admitted(view: ObservedJob) -> int | None:
    """Returns the size of the admitted gang while a larger one waits for its admission; None otherwise.

    An admitted PodGroup says its size until its gang is whole. The PodGroup of a whole gang has only the size that the
    job asks for: the smaller one is stored in the job's status before the job asks for more.
    """
    if view.group is None or _group_waits(view):
        return None
    asked = podgroup.members(*_asked(view))
    if sum(pod.placed and not pod.leaving for pod in view.pods) >= asked:
        return None
    grant = GroupGrant.parse(view.group["status"].get("admittedFor") or {})
    current = (view.group.get("spec") or {}).get("minMember")
    sizes = (grant.least if grant else None, view.memory.admitted_members, current)
    known = next((size for size in sizes if size is not None), asked)
    return known if known < asked else None


def _gang(view: ObservedJob, progress: JobProgress) -> Mapping[str, int]:
    """Returns the number of pods of the admitted gang by task; they have the lowest indexes."""
    if view.group_phase == COMPLETED:
        # Others may have its room by now: pods that a restart creates are admitted again.
        return {}
    job, later = _asked(view)
    current = ((view.group or {}).get("spec") or {}).get("minMember")
    if progress.admitted is not None or current != podgroup.members(job, later):
        # The new size of the gang has not been admitted yet.
        return {}
    return podgroup.chosen(job, priorities(view), later)


def _create(view: ObservedJob, progress: JobProgress, site: Site, place: Place, gang: Mapping[str, int]) -> Create:
    """Returns the creation of one pod; pods beyond the gang are gated until admission finds room for them."""
    name, index = place
    task = view.job.spec.task(name)
    assert task is not None
    # Every pod is created after the admission of its group, so there is one.
    assert view.group is not None
    body = pods.build(
        view.job,
        task,
        index,
        version=progress.version,
        retries=progress.retries,
        site=site,
        group=view.group["metadata"]["name"],
        held=index >= gang.get(name, 0),
    )
    return Create(POD, body)


def _by_name(view: ObservedJob) -> dict[str, Object]:
    return {pod.name: pod.body for pod in view.pods}


def may_start(job: Job, task: Task, pods: Mapping[str, Object]) -> bool:
    """Returns True if the task's pods may be created. pods: the job's pods by name."""
    return not waiting_for(job, task, pods)


def waiting_for(job: Job, task: Task, pods: Mapping[str, Object]) -> tuple[str, ...]:
    """Returns the tasks that this task waits for. A task that does not exist is waited for as well."""
    depends = task.depends_on
    if depends is None or not depends.name:
        return ()
    late = tuple(name for name in dict.fromkeys(depends.name) if not _is_up(job, name, pods))
    if depends.iteration == "any" and len(late) < len(set(depends.name)):
        return ()
    return late


def waiting_tasks(job: Job, pods: Mapping[str, Object]) -> frozenset[str]:
    """Returns the names of the tasks that may not start yet."""
    return frozenset(task.name for task in job.spec.tasks if waiting_for(job, task, pods))


def stalled(job: Job, pods: Mapping[str, Object]) -> Mapping[str, tuple[str, ...]]:
    """Returns the tasks whose missing pods can never be created, each with the tasks it waits for in vain.

    A failed pod keeps its name: until a restart or a user deletes the pod, its index gets no other.
    """
    found: dict[str, tuple[str, ...]] = {}
    while news := {
        task.name: late
        for task in job.spec.tasks
        if task.name not in found and (late := _in_vain(job, task, pods, found.keys()))
    }:
        found |= news
    return found


def unmade(job: Job, pods: Mapping[str, Object]) -> int:
    """Returns the number of missing pods that can never be created."""
    tasks = (job.spec.task(name) for name in stalled(job, pods))
    return sum(
        names.pod(job, task, index) not in pods for task in tasks if task is not None for index in range(task.replicas)
    )


def stalled_message(job: Job, pods: Mapping[str, Object]) -> str:
    """Returns a message that names the tasks that can never start."""
    found = stalled(job, pods)
    return "; ".join(f"task {name} can never start: {_fates(late, found)}" for name, late in found.items())


def _fates(late: tuple[str, ...], gone: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{name} cannot either" if name in gone else f"{name} failed" for name in late)


def _in_vain(job: Job, task: Task, pods: Mapping[str, Object], gone: Set[str]) -> tuple[str, ...]:
    """Returns the failed tasks without which this task cannot start."""
    late = waiting_for(job, task, pods)
    vain = tuple(name for name in late if not _may_come(job, name, pods, gone))
    hopes = task.depends_on is not None and task.depends_on.iteration == "any" and vain != late
    return () if hopes else vain


def _may_come(job: Job, name: str, pods: Mapping[str, Object], gone: Set[str]) -> bool:
    """Returns True if enough pods of a task serve or may still do so. gone: tasks that get no more pods."""
    task = job.spec.task(name)
    if task is None:
        return False
    found = (pods.get(names.pod(job, task, index)) for index in range(task.replicas))
    return sum(name not in gone if pod is None else not _is_over(pod) for pod in found) >= task.gang


def _is_over(pod: Object) -> bool:
    """Returns True for a failed pod that no controller is about to replace."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    given_up = (metadata.get("annotations") or {}).get(OUT_OF_SYNC) == "true"
    return phase == "Failed" and not metadata.get("deletionTimestamp") and not given_up


def _is_up(job: Job, name: str, pods: Mapping[str, Object]) -> bool:
    """Returns True if enough pods of a task serve, or have succeeded."""
    task = job.spec.task(name)
    if task is None:
        return False
    found = (pods.get(names.pod(job, task, index)) for index in range(task.replicas))
    return sum(pod is not None and _serves(pod) for pod in found) >= task.gang


def _serves(pod: Object) -> bool:
    """Returns True for a pod that succeeded, or runs with every reported container ready."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running":
        return bool(status.get("phase") == "Succeeded")
    return all(container.get("ready") for container in status.get("containerStatuses") or ())
