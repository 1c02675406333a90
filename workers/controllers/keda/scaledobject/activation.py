"""Leaving zero and going back: KEDA's own part of scaling. The rows are those of its executor, in their order."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from workers.api.keda.scaledobject import COOLDOWN_PERIOD, ScaledObjectSpec

Row = Literal["A1", "A2", "A3", "I1", "I2", "I3", "I4", "I5"]


@dataclass(frozen=True, slots=True)
class ActivationState:
    """What the rows ask for.

    current: replicas of the workload. active: a trigger is, or activation is forced. failing: a trigger has no value.
    cooled: the cooldown is over. hold_in, hold_out: that direction is paused.
    """

    current: int
    active: bool
    failing: bool = False
    cooled: bool = True
    hold_in: bool = False
    hold_out: bool = False


@dataclass(frozen=True, slots=True)
class ActivationVerdict:
    """row: which one applied. replicas: what to scale to, None to leave that to the metrics.

    cooling: only the cooldown keeps replicas from going.
    """

    row: Row
    replicas: int | None = None
    cooling: bool = False

    @property
    def active(self) -> bool:
        """Something is active."""
        return self.row in ("A1", "A2", "A3")


def judge(spec: ScaledObjectSpec, state: ActivationState) -> ActivationVerdict:
    """The row that applies, and what it does."""
    minimum, idle, current = spec.minimum, spec.idle_replica_count, state.current
    if state.active:
        if current == 0 or (idle is not None and current < minimum):
            return ActivationVerdict("A1", None if state.hold_out else max(1, minimum))
        return ActivationVerdict("A2" if state.failing else "A3")
    if state.failing and spec.fallback is None:
        return ActivationVerdict("I2")
    if state.failing and spec.fallback is not None and spec.fallback.replicas:
        return ActivationVerdict("I1")
    if (idle is not None and current > idle) or (current > 0 and minimum == 0):
        if state.hold_in:
            return ActivationVerdict("I3")
        rest = minimum if idle is None else idle
        return ActivationVerdict("I3", rest) if state.cooled else ActivationVerdict("I3", cooling=True)
    if idle is None and current < minimum:
        return ActivationVerdict("I4", minimum)
    return ActivationVerdict("I5")


def cools_down(spec: ScaledObjectSpec, created: datetime, last_active: datetime | None) -> datetime:
    """The instant after which replicas may go: counted from the last activity, before any from the creation."""
    if last_active is None:
        return created + timedelta(seconds=spec.initial_cooldown_period or 0)
    period = COOLDOWN_PERIOD if spec.cooldown_period is None else spec.cooldown_period
    return last_active + timedelta(seconds=period)
