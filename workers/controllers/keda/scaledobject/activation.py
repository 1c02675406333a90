"""Activation and deactivation, KEDA's own part of scaling: a table whose rows are those of its executor, in order."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from workers.api.keda.scaledobject import COOLDOWN_PERIOD, ScaledObjectSpec

Row = Literal["A1", "A2", "A3", "I1", "I2", "I3", "I4", "I5"]


@dataclass(frozen=True, slots=True)
class ActivationState:
    """The inputs of the table.

    current: replicas of the workload. active: a trigger is active, or activation is forced. failing: a trigger has no
    value. cooled: the cooldown is over. scale_in_paused, scale_out_paused: that direction is paused.
    """

    current: int
    active: bool
    failing: bool = False
    cooled: bool = True
    scale_in_paused: bool = False
    scale_out_paused: bool = False


@dataclass(frozen=True, slots=True)
class ActivationVerdict:
    """row: the one that applies. replicas: to scale to, None to leave that to the metrics.

    cooling: only the cooldown keeps the replicas.
    """

    row: Row
    replicas: int | None = None
    cooling: bool = False

    @property
    def active(self) -> bool:
        """Returns True if a trigger is active or activation is forced."""
        return self.row in ("A1", "A2", "A3")


def judge(spec: ScaledObjectSpec, state: ActivationState) -> ActivationVerdict:
    """Returns the row that applies, with its effect."""
    minimum, idle, current = spec.minimum, spec.idle_replica_count, state.current
    if state.active:
        if current == 0 or (idle is not None and current < minimum):
            return ActivationVerdict("A1", None if state.scale_out_paused else max(1, minimum))
        return ActivationVerdict("A2" if state.failing else "A3")
    if state.failing:
        # A fallback of no replicas waits as any other does: a failed measurement is not a measurement of nothing.
        return ActivationVerdict("I2" if spec.fallback is None else "I1")
    if (idle is not None and current > idle) or (current > 0 and minimum == 0):
        if state.scale_in_paused:
            return ActivationVerdict("I3")
        rest = minimum if idle is None else idle
        return ActivationVerdict("I3", rest) if state.cooled else ActivationVerdict("I3", cooling=True)
    if idle is None and current < minimum:
        return ActivationVerdict("I4", minimum)
    return ActivationVerdict("I5")


def cools_down(spec: ScaledObjectSpec, created: datetime, last_active: datetime | None) -> datetime:
    """Returns the instant after which replicas may go, counted from the last activity, or else from the creation."""
    if last_active is None:
        return created + timedelta(seconds=spec.initial_cooldown_period or 0)
    period = COOLDOWN_PERIOD if spec.cooldown_period is None else spec.cooldown_period
    return last_active + timedelta(seconds=period)
