"""What happens to existing Jobs when the spec changes."""

from collections.abc import Iterable
from typing import Literal

from workers.api.keda.scaledjob import Rollout, ScaledJob
from workers.controllers.keda.scaledjob.jobs import GENERATION
from workers.reconcile.plan import Delete, RecordEvent, Step, Together
from workers.reconcile.snapshot import CachedObject


def roll_out(scaled: ScaledJob, jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Strategy immediate, KEDA's default: delete every Job, finished ones too, made from another generation."""
    rollout = scaled.spec.rollout or Rollout()
    if (scaled.spec.rollout_strategy or rollout.strategy) == "gradual":
        return ()
    propagation: Literal["Foreground", "Background"] = (
        "Foreground" if rollout.propagation_policy == "foreground" else "Background"
    )
    generation = str(scaled.metadata.generation)
    doomed = tuple(
        Delete(entry.ref, metadata["uid"], propagation)
        for entry in jobs
        if entry.body is not None
        and not (metadata := entry.body["metadata"]).get("deletionTimestamp")
        and (metadata.get("annotations") or {}).get(GENERATION) != generation
    )
    if not doomed:
        return ()
    return (
        RecordEvent("Normal", "ScaledJobRolloutCleanupStarted", f"Deleting {len(doomed)} Jobs of earlier generations"),
        Together(
            doomed,
            then=RecordEvent(
                "Normal", "ScaledJobRolloutCleanupCompleted", "Deleted {done} Jobs of earlier generations"
            ),
            otherwise=RecordEvent("Warning", "ScaledJobRolloutCleanupFailed", "Deleting Jobs failed: {error}"),
        ),
    )
