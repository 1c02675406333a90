"""Accounting of finished pods: each is counted exactly once, even if the process dies between two writes.

A pod holds the tracking finalizer until its end has been counted. Its UID is recorded in the Job's status first
(uncountedTerminatedPods), then the finalizer is taken off, then the counter goes up. After a crash the next decision
sees the progress: a recorded UID whose pod still holds the finalizer is not counted yet, one whose pod lost it, or is
gone, only waits for the counter. Successes of an Indexed Job need no UID: recording an index twice completes it once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from workers.api.kinds import Object
from workers.api.statuses import is_finished
from workers.controllers.batch.job.ending import JobEnding
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.observed import ObservedBatchJob, PodLedger
from workers.controllers.batch.job.pods import is_deleting, is_tracked, phase_of, valid_index
from workers.controllers.batch.job.policies import judge_failure

#: Pods counted by one plan, as in Kubernetes.
MAX_COUNTED = 500


@dataclass(frozen=True, slots=True)
class PodSettlement:
    """before: the ledger to write before the finalizers come off. released: the pods that lose theirs. after: the
    ledger to write once they have. more: more pods wait than one plan counts."""

    before: PodLedger
    released: tuple[Object, ...]
    after: PodLedger
    more: bool


def settle(observed: ObservedBatchJob, end: JobEnding | None, *, deleting: bool) -> PodSettlement:
    """Selects the pods to count now. end: the Job's end if it is decided. deleting: the Job is being deleted."""
    # A pod that awaits its replacement keeps the finalizer: its annotations carry the failure counts of the index.
    kept = {pod["metadata"]["uid"] for pod in observed.retried.values()} if not end and not deleting else set()
    ready = [pod for pod in observed.pods.all if is_tracked(pod) and _releasable(observed, pod, end, deleting)]
    ready = [pod for pod in ready if pod["metadata"]["uid"] not in kept]
    if observed.spec.indexed:
        ready.sort(key=lambda pod: -1 if (index := valid_index(pod, observed.spec)) is None else index)
    released = tuple(ready[:MAX_COUNTED])
    before = _recorded(observed, released, end)
    after = before.counted(pod["metadata"]["uid"] for pod in released)
    return PodSettlement(before, released, after, len(ready) > len(released))


def _releasable(observed: ObservedBatchJob, pod: Object, end: JobEnding | None, deleting: bool) -> bool:
    """True if the pod has finished, or is being deleted and its end changes nothing any more."""
    if is_finished(pod) or deleting:
        return True
    return is_deleting(pod) and (end is not None or pod["metadata"]["uid"] in observed.verdicts)


def _recorded(observed: ObservedBatchJob, released: Iterable[Object], end: JobEnding | None) -> PodLedger:
    """Returns the ledger with the released pods recorded."""
    ledger, spec, recorded = observed.ledger, observed.spec, observed.ledger.recorded
    succeeded, failed = list(ledger.uncounted_succeeded), list(ledger.uncounted_failed)
    completed: list[int] = []
    for pod in released:
        uid, index = pod["metadata"]["uid"], valid_index(pod, spec) if spec.indexed else None
        if uid in recorded or (spec.indexed and index is None):
            continue
        if phase_of(pod) == "Succeeded":
            if index is None:
                succeeded.append(uid)
            elif index in observed.completed:
                completed.append(index)
        elif _counts_as_failed(observed, pod, end):
            failed.append(uid)
    done = ledger.completed | Indexes.of(completed)
    return replace(
        ledger,
        succeeded=len(done) if spec.indexed else ledger.succeeded,
        uncounted_succeeded=tuple(succeeded),
        uncounted_failed=tuple(failed),
        completed=done,
        failed_indexes=observed.failed_indexes,
    )


def _counts_as_failed(observed: ObservedBatchJob, pod: Object, end: JobEnding | None) -> bool:
    """True for failed pods unless their policy ignores them, and for active pods that the Job's failure stopped.

    A pod that the Job's success stopped never counts as failed.
    """
    succeeded = end is not None and end.target == "SuccessCriteriaMet"
    if succeeded and observed.ending and is_deleting(pod):
        return False
    if verdict := observed.verdicts.get(pod["metadata"]["uid"]):
        return verdict.counted
    stopped = end is not None and not succeeded and is_deleting(pod)
    return stopped and judge_failure(observed.spec.failure_policy, pod).counted
