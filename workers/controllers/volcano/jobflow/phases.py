"""The phase of a flow, by Volcano's rule."""

from dataclasses import dataclass

PENDING, RUNNING, SUCCEED, FAILED = "Pending", "Running", "Succeed", "Failed"
TERMINATING, TERMINATED = "Terminating", "Terminated"
#: Phase of a flow with a schedule.
SCHEDULED = "Scheduled"
#: Final phases: the flow starts nothing any more.
FINAL = frozenset({SUCCEED, FAILED, TERMINATED})


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """Nodes by state; the others wait, or their Jobs do.

    completed: includes skipped nodes and allowed failures. failed, terminated: without those that others wait for,
    until all nodes are over.
    """

    total: int
    running: int = 0
    completed: int = 0
    failed: int = 0
    terminated: int = 0


def following(phase: str | None, counts: FlowCounts) -> str:
    """Returns the next phase. A flow passes through Running even if everything completes in one step."""
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
