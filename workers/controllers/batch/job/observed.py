"""The observed state of a Job: the counts in its status, and what its pods add to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from workers.api.kinds import Object
from workers.controllers.batch.job import backoff
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.pods import JobPods, is_deleting, is_tracked, phase_of, valid_index
from workers.controllers.batch.job.policies import FailureAction, judge_failure
from workers.controllers.batch.job.spec import BatchJobSpec

NO_INDEXES = Indexes()


@dataclass(frozen=True, slots=True)
class PodLedger:
    """The finished pods in a Job's status.

    succeeded, failed: counted pods; of an Indexed Job, succeeded is the number of its completed indexes.
    uncounted_succeeded, uncounted_failed: UIDs recorded and not counted yet. failed_indexes: None unless every index
    has a limit of its own.
    """

    succeeded: int = 0
    failed: int = 0
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()
    completed: Indexes = NO_INDEXES
    failed_indexes: Indexes | None = None

    @property
    def recorded(self) -> set[str]:
        """The UIDs recorded and not counted yet."""
        return {*self.uncounted_failed, *self.uncounted_succeeded}

    @property
    def settled(self) -> bool:
        """True if no recorded UID is uncounted."""
        return not self.recorded

    def counted(self, uids: Iterable[str]) -> "PodLedger":
        """Returns the ledger with these UIDs, as far as they are recorded, moved to the counters."""
        gone = set(uids)
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid not in gone)
        failed = tuple(uid for uid in self.uncounted_failed if uid not in gone)
        return replace(
            self,
            succeeded=self.succeeded + len(self.uncounted_succeeded) - len(succeeded),
            failed=self.failed + len(self.uncounted_failed) - len(failed),
            uncounted_succeeded=succeeded,
            uncounted_failed=failed,
        )


@dataclass(frozen=True)
class ObservedBatchJob:
    """The pods and the ledger of one Job, and the totals of both.

    ending: an earlier decision ended the Job, and pods that are being deleted were stopped for it.
    """

    spec: BatchJobSpec
    pods: JobPods
    ledger: PodLedger
    ending: bool = False

    @cached_property
    def verdicts(self) -> Mapping[str, FailureAction]:
        """The verdict of the pod failure policy on each failed pod, by UID."""
        return {pod["metadata"]["uid"]: judge_failure(self.spec.failure_policy, pod) for pod in self.pods.failed}

    @cached_property
    def new_failures(self) -> list[Object]:
        """Failed pods that count and are not recorded yet."""
        recorded = self.ledger.recorded
        return [
            pod
            for pod in self.pods.failed
            if is_tracked(pod)
            and (uid := pod["metadata"]["uid"]) not in recorded
            and self.verdicts[uid].counted
            and (not self.spec.indexed or valid_index(pod, self.spec) is not None)
        ]

    @cached_property
    def failed(self) -> int:
        """Number of failed pods, counted yet or not."""
        return self.ledger.failed + len(self.ledger.uncounted_failed) + len(self.new_failures)

    @cached_property
    def succeeded(self) -> int:
        """Number of succeeded pods, or indexes, counted yet or not."""
        if self.spec.indexed:
            return len(self.completed)
        recorded = self.ledger.recorded
        new = sum(is_tracked(pod) and pod["metadata"]["uid"] not in recorded for pod in self.pods.succeeded)
        return self.ledger.succeeded + len(self.ledger.uncounted_succeeded) + new

    @cached_property
    def completed(self) -> Indexes:
        """Indexes with a success. A failed index stays failed, even if a second pod of it succeeds."""
        if not self.spec.indexed:
            return Indexes()
        recorded_failed = set(self.ledger.uncounted_failed)
        failed = self.ledger.failed_indexes or Indexes()
        indexes = (
            index
            for pod in self.pods.succeeded
            if is_tracked(pod)
            and pod["metadata"]["uid"] not in recorded_failed
            and (index := valid_index(pod, self.spec)) is not None
            and index not in failed
        )
        return self.ledger.completed | Indexes.of(indexes)

    @cached_property
    def failed_indexes(self) -> Indexes | None:
        """Indexes that get no further pod; None unless every index has a limit of its own."""
        limit = self.spec.backoff_limit_per_index
        if limit is None or self.ledger.failed_indexes is None:
            return None
        indexes = (
            index
            for pod in self.pods.failed
            if is_tracked(pod)
            and (index := valid_index(pod, self.spec)) is not None
            and index not in self.completed
            and not (self.ending and is_deleting(pod))
            and backoff.failed_index(pod, limit, self.verdicts[pod["metadata"]["uid"]])
        )
        return self.ledger.failed_indexes | Indexes.of(indexes)

    @cached_property
    def occupied(self) -> Indexes:
        """Indexes with an active pod, or with a terminating one that keeps its place."""
        busy = (*self.pods.active, *(self.pods.terminating if self.spec.replace_only_failed else ()))
        return Indexes.of(index for pod in busy if (index := valid_index(pod, self.spec)) is not None)

    @cached_property
    def done(self) -> Indexes:
        """Indexes that need no further pod: completed or failed."""
        return self.completed | (self.failed_indexes or Indexes())

    @cached_property
    def retried(self) -> Mapping[int, Object]:
        """The failed pod to replace, by index; it keeps its finalizer until its replacement exists."""
        if not self.spec.per_index:
            return {}
        recorded = set(self.ledger.uncounted_failed)
        replaceable = (
            pod
            for pod in self.pods.failed
            if is_tracked(pod)
            and pod["metadata"]["uid"] not in recorded
            and (index := valid_index(pod, self.spec)) is not None
            and index not in self.done
            and index not in self.occupied
        )
        return backoff.newest_failed(replaceable)


def read_ledger(job: Object, spec: BatchJobSpec, pods: JobPods) -> PodLedger:
    """Reads the ledger from the Job's status; UIDs whose pods lost the finalizer, or are gone, are counted."""
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    completed = Indexes.parse(status.get("completedIndexes"), spec.size) if spec.indexed else Indexes()
    succeeded, failed = status.get("succeeded") or 0, status.get("failed") or 0
    if "uncountedTerminatedPods" not in status and not spec.indexed:
        succeeded, failed = _untracked(pods, succeeded, failed)
    ledger = PodLedger(
        succeeded=len(completed) if spec.indexed else succeeded,
        failed=failed,
        uncounted_succeeded=tuple(uncounted.get("succeeded") or ()),
        uncounted_failed=tuple(uncounted.get("failed") or ()),
        completed=completed,
        failed_indexes=Indexes.parse(status.get("failedIndexes"), spec.size) if spec.per_index else None,
    )
    tracked = {pod["metadata"]["uid"] for pod in pods.all if is_tracked(pod)}
    return ledger.counted(ledger.recorded - tracked)


def _untracked(pods: JobPods, succeeded: int, failed: int) -> tuple[int, int]:
    """Returns counts that are not less than the finished pods that exist.

    For API servers without uncountedTerminatedPods, and for Jobs begun by a version that did not use the field.
    """
    ends = [phase_of(pod) for pod in pods.all if not is_tracked(pod) and not is_deleting(pod)]
    return max(succeeded, ends.count("Succeeded")), max(failed, ends.count("Failed"))
