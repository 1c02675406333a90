"""Counting finished pods, each exactly once, whatever dies on the way.

A pod holds the tracking finalizer until its end has been counted. Its uid is written down in the Job's status first
(uncountedTerminatedPods), then the finalizer is taken off, then the counter goes up. Wherever that is cut short, the
next decision sees how far it got: an uid whose pod still holds the finalizer is not counted yet, one whose pod does
not, or is gone, only waits for the counter. Successes of an Indexed Job need no uid: an index is completed once,
however often that is written down.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from workers.api.kinds import Object
from workers.controllers.batch.job.ending import JobEnding
from workers.controllers.batch.job.failure_policy import judge
from workers.controllers.batch.job.findings import Findings
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.ledger import PodLedger
from workers.controllers.batch.job.pods import is_finished, is_leaving, is_tracked, phase_of, place

#: Pods counted by one plan, as in Kubernetes.
HELPING = 500


@dataclass(frozen=True, slots=True)
class PodSettlement:
    """before: the ledger to write before the finalizers go. released: the pods that lose theirs. after: the ledger
    to write once they have. more: there are more than one plan counts."""

    before: PodLedger
    released: tuple[Object, ...]
    after: PodLedger
    more: bool


def settle(findings: Findings, over: JobEnding | None, *, letting_go: bool) -> PodSettlement:
    """Which pods are counted now. over: the end that is decided. letting_go: the Job is being deleted."""
    held = {pod["metadata"]["uid"] for pod in findings.retried.values()} if not over and not letting_go else set()
    ready = [pod for pod in findings.pods.all if is_tracked(pod) and _may_go(findings, pod, over, letting_go)]
    ready = [pod for pod in ready if pod["metadata"]["uid"] not in held]
    if findings.spec.indexed:
        ready.sort(key=lambda pod: -1 if (index := place(pod, findings.spec)) is None else index)
    released = tuple(ready[:HELPING])
    before = _written(findings, released, over)
    after = before.counted(pod["metadata"]["uid"] for pod in released)
    return PodSettlement(before, released, after, len(ready) > len(released))


def _may_go(findings: Findings, pod: Object, over: JobEnding | None, letting_go: bool) -> bool:
    """A pod at work keeps its finalizer, unless it is on its way out and nothing depends on its end any more."""
    if is_finished(pod) or letting_go:
        return True
    if not is_leaving(pod):
        return False
    return over is not None or pod["metadata"]["uid"] in findings.verdicts


def _written(findings: Findings, released: Iterable[Object], over: JobEnding | None) -> PodLedger:
    ledger, spec = findings.ledger, findings.spec
    succeeded, failed = list(ledger.waiting_succeeded), list(ledger.waiting_failed)
    known = {*succeeded, *failed}
    completed: list[int] = []
    for pod in released:
        uid, index = pod["metadata"]["uid"], place(pod, spec) if spec.indexed else None
        if uid in known or (spec.indexed and index is None):
            continue
        if phase_of(pod) == "Succeeded":
            if index is None:
                succeeded.append(uid)
            elif index in findings.completed:
                completed.append(index)
        elif _counts_as_failed(findings, pod, over):
            failed.append(uid)
    done = ledger.completed | Indexes.of(completed)
    return replace(
        ledger,
        succeeded=len(done) if spec.indexed else ledger.succeeded,
        waiting_succeeded=tuple(succeeded),
        waiting_failed=tuple(failed),
        completed=done,
        failed_indexes=findings.failed_indexes,
    )


def _counts_as_failed(findings: Findings, pod: Object, over: JobEnding | None) -> bool:
    """Failed pods count unless their policy ignores them, and so do those a failed Job has stopped at work.

    A pod that a Job's success has stopped is no failure, however it ends.
    """
    succeeded = over is not None and over.target == "SuccessCriteriaMet"
    if succeeded and findings.ending and is_leaving(pod):
        return False
    if verdict := findings.verdicts.get(pod["metadata"]["uid"]):
        return verdict.counted
    stopped = over is not None and not succeeded and is_leaving(pod)
    return stopped and judge(findings.spec.failure_policy, pod).counted
