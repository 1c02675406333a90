"""What a Job's pods tell about it beyond what its status says already."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workers.api.kinds import Object
from workers.controllers.batch.job import backoff
from workers.controllers.batch.job.failure_policy import FailureAction, judge
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.ledger import PodLedger
from workers.controllers.batch.job.pods import JobPods, is_leaving, is_tracked, place
from workers.controllers.batch.job.spec import BatchJobSpec


@dataclass(frozen=True)
class Findings:
    """The pods beside the ledger: what was not written down yet, and what both together come to.

    ending: the Job's end was decided earlier, so that pods which are being deleted have been stopped for it.
    """

    spec: BatchJobSpec
    pods: JobPods
    ledger: PodLedger
    ending: bool = False

    @cached_property
    def verdicts(self) -> Mapping[str, FailureAction]:
        """What the pod failure policy says of each failed pod, by its uid."""
        return {pod["metadata"]["uid"]: judge(self.spec.failure_policy, pod) for pod in self.pods.failed}

    @cached_property
    def new_failures(self) -> list[Object]:
        """Pods that failed and are to be counted as such."""
        known = {*self.ledger.waiting_failed, *self.ledger.waiting_succeeded}
        return [
            pod
            for pod in self.pods.failed
            if is_tracked(pod)
            and (uid := pod["metadata"]["uid"]) not in known
            and self.verdicts[uid].counted
            and (not self.spec.indexed or place(pod, self.spec) is not None)
        ]

    @cached_property
    def failed(self) -> int:
        """How many pods have failed, counted yet or not."""
        return self.ledger.failed + len(self.ledger.waiting_failed) + len(self.new_failures)

    @cached_property
    def succeeded(self) -> int:
        """How many pods, or indexes, have succeeded, counted yet or not."""
        if self.spec.indexed:
            return len(self.completed)
        known = {*self.ledger.waiting_failed, *self.ledger.waiting_succeeded}
        new = sum(is_tracked(pod) and pod["metadata"]["uid"] not in known for pod in self.pods.succeeded)
        return self.ledger.succeeded + len(self.ledger.waiting_succeeded) + new

    @cached_property
    def completed(self) -> Indexes:
        """Indexes with a success. One that has failed stays failed, whatever a second pod of it does."""
        if not self.spec.indexed:
            return Indexes()
        lost = set(self.ledger.waiting_failed)
        over = self.ledger.failed_indexes or Indexes()
        found = (
            index
            for pod in self.pods.succeeded
            if is_tracked(pod)
            and pod["metadata"]["uid"] not in lost
            and (index := place(pod, self.spec)) is not None
            and index not in over
        )
        return self.ledger.completed | Indexes.of(found)

    @cached_property
    def failed_indexes(self) -> Indexes | None:
        """Indexes that have failed for good; None unless every index has a limit of its own."""
        limit = self.spec.backoff_limit_per_index
        if limit is None or self.ledger.failed_indexes is None:
            return None
        found = (
            index
            for pod in self.pods.failed
            if is_tracked(pod)
            and (index := place(pod, self.spec)) is not None
            and index not in self.completed
            and not (self.ending and is_leaving(pod))
            and backoff.failed_index(pod, limit, self.verdicts[pod["metadata"]["uid"]])
        )
        return self.ledger.failed_indexes | Indexes.of(found)

    @cached_property
    def occupied(self) -> Indexes:
        """Indexes that a pod works on, or still occupies while it ends."""
        busy = (*self.pods.active, *(self.pods.terminating if self.spec.replace_only_failed else ()))
        return Indexes.of(index for pod in busy if (index := place(pod, self.spec)) is not None)

    @cached_property
    def done(self) -> Indexes:
        """Indexes that need no pod any more."""
        return self.completed | (self.failed_indexes or Indexes())

    @cached_property
    def retried(self) -> Mapping[int, Object]:
        """By index, the failed pod that is to be replaced; it keeps its finalizer until it has been."""
        if not self.spec.per_index:
            return {}
        written = set(self.ledger.waiting_failed)
        waiting = (
            pod
            for pod in self.pods.failed
            if is_tracked(pod)
            and pod["metadata"]["uid"] not in written
            and (index := place(pod, self.spec)) is not None
            and index not in self.done
            and index not in self.occupied
        )
        return backoff.newest_failed(waiting)
