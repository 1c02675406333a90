"""Jobs to delete: those of earlier generations after a change of the spec, and the oldest finished ones."""

from collections.abc import Iterable
from typing import Literal

from workers.api import conditions
from workers.api.keda.scaledjob import HISTORY_LIMIT, Rollout, ScaledJob, ScaledJobSpec
from workers.api.kinds import Object, Ref
from workers.controllers.keda.scaledjob.jobs import GENERATION
from workers.decision.plan import Delete, RecordEvent, Step, Together
from workers.decision.snapshot import CachedObject


def roll_out(scaled: ScaledJob, jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Returns steps that delete every Job of another generation, finished ones too; none with strategy gradual."""
    rollout = scaled.spec.rollout or Rollout()
    if (scaled.spec.rollout_strategy or rollout.strategy) == "gradual":
        return ()
    propagation: Literal["Foreground", "Background"] = (
        "Foreground" if rollout.propagation_policy == "foreground" else "Background"
    )
    generation = str(scaled.metadata.generation)
    deletes = tuple(
        Delete(entry.ref, metadata["uid"], propagation)
        for entry in jobs
        if entry.body is not None
        and not (metadata := entry.body["metadata"]).get("deletionTimestamp")
        and (metadata.get("annotations") or {}).get(GENERATION) != generation
    )
    if not deletes:
        return ()
    started, number = "ScaledJobRolloutCleanupStarted", len(deletes)
    return (
        RecordEvent("Normal", started, f"Deleting {number} Jobs of earlier generations"),
        Together(
            deletes,
            then=RecordEvent(
                "Normal", "ScaledJobRolloutCleanupCompleted", "Deleted {done} Jobs of earlier generations"
            ),
            otherwise=RecordEvent("Warning", "ScaledJobRolloutCleanupFailed", "Deleting Jobs failed: {error}"),
        ),
    )


def trim_history(spec: ScaledJobSpec, jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Returns the step that deletes the oldest finished Jobs beyond the limits; empty if there are none.

    Failed Jobs are ordered by the time they failed; KEDA's order of them is random.
    """
    finished: dict[str, list[tuple[Ref, Object]]] = {"Complete": [], "Failed": []}
    for entry in jobs:
        if entry.body is not None and (outcome := conditions.finished(entry.body)):
            finished[outcome].append((entry.ref, entry.body))
    deletes = (
        *_oldest(finished["Complete"], "Complete", spec.successful_jobs_history_limit),
        *_oldest(finished["Failed"], "Failed", spec.failed_jobs_history_limit),
    )
    return (Together(deletes),) if deletes else ()


def keeps_failed(spec: ScaledJobSpec, interval: float, failed: int) -> bool:
    """Returns True if failed Jobs stay for a polling interval, so that those that vanish within it did not fail.

    interval: seconds. failed: Jobs that failed within it and are there; as many as the history keeps may have pushed
    others out of it.
    """
    seconds, limit = spec.job_target_ref.get("ttlSecondsAfterFinished"), spec.failed_jobs_history_limit
    kept = failed < (HISTORY_LIMIT if limit is None else limit)
    return kept and not (isinstance(seconds, int) and seconds < interval)


def _oldest(jobs: list[tuple[Ref, Object]], outcome: str, limit: int | None) -> list[Delete]:
    """Returns the deletes that leave `limit` Jobs; Jobs that are being deleted count as gone."""
    staying = [(ref, body) for ref, body in jobs if not body["metadata"].get("deletionTimestamp")]
    surplus = len(staying) - (HISTORY_LIMIT if limit is None else limit)
    if surplus <= 0:
        return []
    staying.sort(key=lambda job: (_ended(job[1], outcome), job[0].name))
    return [Delete(ref, body["metadata"]["uid"]) for ref, body in staying[:surplus]]


def _ended(job: Object, outcome: str) -> str:
    """Returns the end of a finished Job as RFC 3339 in UTC, so that the text sorts by time."""
    condition = conditions.find(job, outcome) or {}
    completed = job["status"].get("completionTime") if outcome == "Complete" else None
    return str(completed or condition.get("lastTransitionTime") or "")
