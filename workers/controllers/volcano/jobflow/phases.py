"""The flow's phase, by Volcano's rule: where it stands, and how many of its entries stand where."""

from dataclasses import dataclass

PENDING, RUNNING, SUCCEED, FAILED = "Pending", "Running", "Succeed", "Failed"
TERMINATING, TERMINATED = "Terminating", "Terminated"
#: Of a flow with a schedule, which runs nothing itself.
SCHEDULED = "Scheduled"
#: A flow in one of these starts nothing any more.
FINAL = frozenset({SUCCEED, FAILED, TERMINATED})


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """Entries by how they stand; those that are not named here wait, or their Jobs do.

    completed: also those that were skipped, or were allowed to fail. failed, terminated: without those that others
    wait for, as long as there are such.
    """

    total: int
    running: int = 0
    completed: int = 0
    failed: int = 0
    terminated: int = 0


def following(phase: str | None, counts: FlowCounts) -> str:
    """The phase that follows. A flow passes through Running even if everything completed in one step."""
    match phase:
        case None | "" | "Pending":
            at_work = counts.running > 0 or counts.completed > 0
            if counts.failed > 0 or (counts.terminated > 0 and not at_work):
                return FAILED
            # Volcano leaves a flow without entries Pending for ever.
            return RUNNING if at_work or not counts.total else PENDING
        case "Running":
            if counts.completed == counts.total:
                return SUCCEED
            return FAILED if counts.failed > 0 or counts.terminated > 0 else RUNNING
        case _:
            return phase
