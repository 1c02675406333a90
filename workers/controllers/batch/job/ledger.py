"""The counts of finished pods as a Job's status keeps them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from workers.api.kinds import Object
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.pods import JobPods, is_leaving, is_tracked, phase_of
from workers.controllers.batch.job.spec import BatchJobSpec

NO_INDEXES = Indexes()


@dataclass(frozen=True, slots=True)
class PodLedger:
    """What a Job's status says of finished pods.

    succeeded, failed: counted pods; of an Indexed Job, succeeded is the number of its completed indexes.
    waiting_succeeded, waiting_failed: uids written down and not counted yet. failed_indexes: None unless every index
    has a limit of its own.
    """

    succeeded: int = 0
    failed: int = 0
    waiting_succeeded: tuple[str, ...] = ()
    waiting_failed: tuple[str, ...] = ()
    completed: Indexes = NO_INDEXES
    failed_indexes: Indexes | None = None

    @property
    def settled(self) -> bool:
        """Whether everything written down has been counted."""
        return not self.waiting_succeeded and not self.waiting_failed

    def counted(self, uids: Iterable[str]) -> "PodLedger":
        """The ledger once these uids, as far as they wait, have moved to the counters."""
        gone = set(uids)
        succeeded = tuple(uid for uid in self.waiting_succeeded if uid not in gone)
        failed = tuple(uid for uid in self.waiting_failed if uid not in gone)
        return replace(
            self,
            succeeded=self.succeeded + len(self.waiting_succeeded) - len(succeeded),
            failed=self.failed + len(self.waiting_failed) - len(failed),
            waiting_succeeded=succeeded,
            waiting_failed=failed,
        )


def observed(job: Object, spec: BatchJobSpec, pods: JobPods) -> PodLedger:
    """The ledger in the Job's status; uids whose pods lost the finalizer since, or are gone, are counted."""
    status = job.get("status") or {}
    waiting = status.get("uncountedTerminatedPods") or {}
    completed = Indexes.parse(status.get("completedIndexes"), spec.size) if spec.indexed else Indexes()
    succeeded, failed = status.get("succeeded") or 0, status.get("failed") or 0
    if "uncountedTerminatedPods" not in status and not spec.indexed:
        succeeded, failed = _untracked(pods, succeeded, failed)
    ledger = PodLedger(
        succeeded=len(completed) if spec.indexed else succeeded,
        failed=failed,
        waiting_succeeded=tuple(waiting.get("succeeded") or ()),
        waiting_failed=tuple(waiting.get("failed") or ()),
        completed=completed,
        failed_indexes=Indexes.parse(status.get("failedIndexes"), spec.size) if spec.per_index else None,
    )
    held = {pod["metadata"]["uid"] for pod in pods.all if is_tracked(pod)}
    return ledger.counted(uid for uid in (*ledger.waiting_succeeded, *ledger.waiting_failed) if uid not in held)


def _untracked(pods: JobPods, succeeded: int, failed: int) -> tuple[int, int]:
    """Where uids cannot be written down, no count is less than what can be seen.

    That is so on API servers that do not know the field, and for Jobs begun by a version that did not use it.
    """
    ends = [phase_of(pod) for pod in pods.all if not is_tracked(pod) and not is_leaving(pod)]
    return max(succeeded, ends.count("Succeeded")), max(failed, ends.count("Failed"))
