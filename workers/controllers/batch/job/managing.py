"""How many pods a Job should have at work, and what is done to come to that."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api.kinds import POD, Object, ref_of
from workers.controllers import conditions
from workers.controllers.batch.job import backoff, claiming, creation
from workers.controllers.batch.job.findings import Findings
from workers.controllers.batch.job.indexes import Indexes, pending
from workers.controllers.batch.job.pods import is_tracked, place
from workers.controllers.batch.job.ranking import rank
from workers.controllers.batch.job.status import PodCounts
from workers.reconcile.plan import Create, Delete, RecordEvent, Step, Together

#: Pods created or deleted by one plan, as in Kubernetes.
HELPING = 500
#: A pod that goes at once when it is deleted sends no further news: look again.
LOOK_AGAIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class JobWork:
    """What is done to the pods, the tally once it is done, and when to look again."""

    steps: tuple[Step, ...]
    tally: PodCounts
    back: datetime | None = None


def stop(findings: Findings, now: datetime) -> JobWork:
    """Delete all pods at work, as the Job's end is decided.

    They keep their finalizers: what becomes of them is counted by the next decision, which is due at once.
    """
    pods = findings.pods
    work = _delete(pods.active[:HELPING], PodCounts.of(pods))
    return replace(work, back=now) if work.steps else work


def manage(job: Object, findings: Findings, taken: Set[str], now: datetime) -> JobWork:
    """Bring the number of pods at work to what is wanted. taken: names of pods that are in use or were."""
    victims = _surplus(findings)
    if victims:
        return _remove(victims, findings, now)
    spec, pods = findings.spec, findings.pods
    untracked = tuple(claiming.track(pod) for pod in pods.active if not is_tracked(pod))
    kept: tuple[Step, ...] = (Together(untracked),) if untracked else ()
    occupied = len(pods.active) + (len(pods.terminating) if spec.replace_only_failed else 0)
    missing = 0 if spec.suspended else _wanted(findings) - occupied
    added = _add(job, findings, taken, missing, now) if missing > 0 else JobWork((), PodCounts.of(pods))
    return replace(added, steps=(*kept, *added.steps))


def _wanted(findings: Findings) -> int:
    """How many pods should be at work now."""
    spec = findings.spec
    if spec.completions is None:
        # A work queue: once a pod has succeeded the others finish, and none is added.
        return len(findings.pods.active) if findings.succeeded else spec.parallelism
    return max(0, min(spec.completions - findings.succeeded, spec.parallelism))


def _surplus(findings: Findings) -> list[Object]:
    """The active pods that must go, the first to go first."""
    spec, active = findings.spec, findings.pods.active
    excess = len(active) if spec.suspended else max(0, len(active) - _wanted(findings))
    if not excess and not spec.indexed:
        return []
    ranked = sorted(active, key=rank)
    useless = [] if spec.suspended or not spec.indexed else _useless(findings, ranked)
    gone = {pod["metadata"]["uid"] for pod in useless}
    others = [pod for pod in ranked if pod["metadata"]["uid"] not in gone]
    return useless + others[: max(0, excess - len(useless))]


def _useless(findings: Findings, active: Sequence[Object]) -> list[Object]:
    """Pods of no index, or of one that needs none or has a better one. active: the better ones last."""
    useless: list[Object] = []
    served: set[int] = set()
    for pod in reversed(active):
        index = place(pod, findings.spec)
        if index is None or index in served or index in findings.done:
            useless.append(pod)
        else:
            served.add(index)
    return useless[::-1]


def _remove(victims: Sequence[Object], findings: Findings, now: datetime) -> JobWork:
    """Without their finalizers first, so that their end is not held against the Job."""
    victims = victims[:HELPING]
    untracked = Together(
        tuple(claiming.untrack(pod) for pod in victims if is_tracked(pod)), otherwise=_failed_to("Delete", "deleting")
    )
    work = _delete(victims, PodCounts.of(findings.pods))
    return replace(work, steps=((untracked,) if untracked.steps else ()) + work.steps, back=now + LOOK_AGAIN)


def _delete(pods: Sequence[Object], tally: PodCounts) -> JobWork:
    if not pods:
        return JobWork((), tally)
    stage = Together(
        tuple(Delete(ref_of(POD, pod), pod["metadata"]["uid"]) for pod in pods),
        then=_told("SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in pods]),
        otherwise=_failed_to("Delete", "deleting"),
    )
    left = PodCounts(
        active=tally.active - len(pods),
        ready=tally.ready - sum(conditions.holds(pod, "Ready") for pod in pods),
        terminating=tally.terminating + len(pods),
    )
    return JobWork((stage,), left)


def _add(job: Object, findings: Findings, taken: Set[str], missing: int, now: datetime) -> JobWork:
    spec, tally = findings.spec, PodCounts.of(findings.pods)
    number = min(missing, HELPING)
    back = now if missing > number else None
    if spec.per_index:
        waiting = dict(_waiting(findings, now))
        indexes = _pending(findings, Indexes.of(waiting), number)
        bodies = list(creation.indexed_pods(job, spec, taken, indexes, findings.retried))
        if any(index in findings.retried for index in indexes):
            # Their replacements made, the failed pods are counted.
            back = now
        elif len(indexes) < number and waiting:
            back = min(waiting.values())
    else:
        failed = [pod for pod in findings.pods.failed if backoff.waited_for(pod)]
        ready_at = backoff.ready_at(findings.pods.succeeded, failed)
        if ready_at and ready_at > now:
            return JobWork((), tally, ready_at)
        if spec.indexed:
            bodies = list(creation.indexed_pods(job, spec, taken, _pending(findings, Indexes(), number), {}))
        else:
            bodies = list(creation.pods(job, spec, taken, number))
    return JobWork(tuple(_creations(bodies)), replace(tally, active=tally.active + len(bodies)), back)


def _waiting(findings: Findings, now: datetime) -> Iterator[tuple[int, datetime]]:
    """Indexes that wait before they are tried again, and until when."""
    for index, pod in findings.retried.items():
        if backoff.waited_for(pod) and (ready_at := backoff.index_ready_at(pod)) > now:
            yield index, ready_at


def _pending(findings: Findings, waiting: Indexes, number: int) -> list[int]:
    return pending(findings.spec.size, findings.done | findings.occupied | waiting, number)


def _creations(bodies: Sequence[Object]) -> Iterator[Together]:
    if bodies:
        yield Together(
            tuple(Create(POD, body) for body in bodies),
            then=_told("SuccessfulCreate", "Created", [body["metadata"]["name"] for body in bodies]),
            otherwise=_failed_to("Create", "creating"),
        )


def _failed_to(verb: str, doing: str) -> RecordEvent:
    return RecordEvent("Warning", f"Failed{verb}", f"Error {doing}: {{error}}")


def _told(reason: str, verb: str, names: Sequence[str]) -> RecordEvent:
    """One Event for all pods of a stage: a Job of a thousand pods must not write a thousand Events."""
    message = f"{verb} pod: {names[0]}" if len(names) == 1 else f"{verb} {{done}} pods"
    return RecordEvent("Normal", reason, message)
