"""The number of active pods a Job should have, and the steps towards it."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime

from workers.api import conditions
from workers.api.kinds import Object
from workers.controllers import adoption, pod_stages
from workers.controllers.batch.job import backoff, creation
from workers.controllers.batch.job.indexes import pending
from workers.controllers.batch.job.observed import ObservedBatchJob
from workers.controllers.batch.job.pods import delays_replacement, is_tracked, rank, valid_index
from workers.controllers.batch.job.status import PodCounts
from workers.decision.plan import Step, Together

#: Pods created or deleted by one plan, as in Kubernetes.
MAX_PODS = 500


@dataclass(frozen=True, slots=True)
class JobWork:
    """The steps on pods, the counts once they are done, and when the key comes back for the rest."""

    steps: tuple[Step, ...]
    counts: PodCounts
    requeue_at: datetime | None = None


def stop(observed: ObservedBatchJob, now: datetime) -> JobWork:
    """Deletes all active pods, as the Job's end is decided.

    They keep their finalizers: the next decision, due at once, counts their ends.
    """
    pods = observed.pods
    work = _delete(pods.active[:MAX_PODS], PodCounts.of(pods))
    return replace(work, requeue_at=now) if work.steps else work


def manage(job: Object, observed: ObservedBatchJob, taken: Set[str], now: datetime) -> JobWork:
    """Brings the number of active pods to the wanted one. taken: names of pods in use, now or before."""
    if surplus := _surplus_pods(observed):
        return _remove(surplus, observed, now)
    spec, pods = observed.spec, observed.pods
    untracked = tuple(adoption.track(pod) for pod in pods.active if not is_tracked(pod))
    tracking: tuple[Step, ...] = (Together(untracked),) if untracked else ()
    occupied = len(pods.active) + (len(pods.terminating) if spec.replace_only_failed else 0)
    missing = 0 if spec.suspended else _wanted(observed) - occupied
    added = _add(job, observed, taken, missing, now) if missing > 0 else JobWork((), PodCounts.of(pods))
    return replace(added, steps=(*tracking, *added.steps))


def _wanted(observed: ObservedBatchJob) -> int:
    """Returns the wanted number of active pods."""
    spec = observed.spec
    if spec.completions is None:
        # A work queue: once a pod has succeeded the others finish, and none is added.
        return len(observed.pods.active) if observed.succeeded else spec.parallelism
    return max(0, min(spec.completions - observed.succeeded, spec.parallelism))


def _surplus_pods(observed: ObservedBatchJob) -> list[Object]:
    """Returns the active pods to delete, in order of deletion."""
    spec, active = observed.spec, observed.pods.active
    excess = len(active) if spec.suspended else max(0, len(active) - _wanted(observed))
    if not excess and not spec.indexed:
        return []
    ranked = sorted(active, key=rank)
    needless = [] if spec.suspended or not spec.indexed else _needless(observed, ranked)
    gone = {pod["metadata"]["uid"] for pod in needless}
    others = [pod for pod in ranked if pod["metadata"]["uid"] not in gone]
    return needless + others[: max(0, excess - len(needless))]


def _needless(observed: ObservedBatchJob, active: Sequence[Object]) -> list[Object]:
    """Returns pods of no index, of a finished index, or of one with a better pod. active: the better ones last."""
    needless: list[Object] = []
    served: set[int] = set()
    for pod in reversed(active):
        index = valid_index(pod, observed.spec)
        if index is None or index in served or index in observed.done:
            needless.append(pod)
        else:
            served.add(index)
    return needless[::-1]


def _remove(surplus: Sequence[Object], observed: ObservedBatchJob, now: datetime) -> JobWork:
    """Takes the finalizers off and then deletes, so that the ends do not count as failures."""
    surplus = surplus[:MAX_PODS]
    untracked = Together(
        tuple(adoption.untrack(pod) for pod in surplus if is_tracked(pod)), otherwise=pod_stages.DELETE_FAILED
    )
    work = _delete(surplus, PodCounts.of(observed.pods))
    return replace(
        work, steps=((untracked,) if untracked.steps else ()) + work.steps, requeue_at=now + pod_stages.RECHECK
    )


def _delete(pods: Sequence[Object], counts: PodCounts) -> JobWork:
    left = PodCounts(
        active=counts.active - len(pods),
        ready=counts.ready - sum(conditions.holds(pod, "Ready") for pod in pods),
        terminating=counts.terminating + len(pods),
    )
    return JobWork(pod_stages.delete(pods), left)


def _add(job: Object, observed: ObservedBatchJob, taken: Set[str], missing: int, now: datetime) -> JobWork:
    spec, counts = observed.spec, PodCounts.of(observed.pods)
    number = min(missing, MAX_PODS)
    requeue_at = now if missing > number else None
    if spec.per_index:
        delayed = dict(_delayed(observed, now))
        # An index in backoff keeps its place: taken by a higher one, it would be retried only when that one ends.
        chosen = _pending(observed, number)
        indexes = [index for index in chosen if index not in delayed]
        bodies = list(creation.indexed_pods(job, spec, taken, indexes, observed.retried))
        if any(index in observed.retried for index in indexes):
            # Once their replacements exist the failed pods are counted.
            requeue_at = now
        elif len(indexes) < len(chosen) and not (indexes and requeue_at):
            requeue_at = min(delayed[index] for index in chosen if index in delayed)
    else:
        failed = [pod for pod in observed.pods.failed if delays_replacement(pod)]
        ready_at = backoff.ready_at(observed.pods.succeeded, failed)
        if ready_at and ready_at > now:
            return JobWork((), counts, ready_at)
        if spec.indexed:
            bodies = list(creation.indexed_pods(job, spec, taken, _pending(observed, number), {}))
        else:
            bodies = list(creation.pods(job, spec, taken, number))
    return JobWork(pod_stages.create(bodies), replace(counts, active=counts.active + len(bodies)), requeue_at)


def _delayed(observed: ObservedBatchJob, now: datetime) -> Iterator[tuple[int, datetime]]:
    """Yields the indexes in backoff with its end."""
    for index, pod in observed.retried.items():
        if delays_replacement(pod) and (ready_at := backoff.index_ready_at(pod)) > now:
            yield index, ready_at


def _pending(observed: ObservedBatchJob, number: int) -> list[int]:
    return pending(observed.spec.size, observed.done | observed.occupied, number)
