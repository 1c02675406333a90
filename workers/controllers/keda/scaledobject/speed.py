"""How fast replicas follow what is proposed: stabilisation windows, policies, bounds, as an autoscaler has them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from workers.api.keda.scaledobject import Behavior, ScalingPolicy, ScalingRules
from workers.controllers.keda.scaledobject.memory import MemoryEntry, ScalingMemory
from workers.controllers.keda.scaledobject.proposals import TOLERANCE, Tolerance

#: Seconds between two looks of an autoscaler.
SYNC = 15
#: Seconds of earlier proposals that keep replicas from going down where nothing else is said.
DOWN_WINDOW = 300


@dataclass(frozen=True, slots=True)
class Direction:
    """The rules of one direction. window: seconds. policies: empty means KEDA's case without any `behavior`."""

    window: int
    select: Literal["Max", "Min", "Disabled"] = "Max"
    policies: tuple[ScalingPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class Speed:
    """The rules of both directions, defaults filled in."""

    up: Direction
    down: Direction
    tolerance: Tolerance

    @property
    def period(self) -> int:
        """Seconds for which changes must be remembered."""
        return max((policy.period_seconds for policy in (*self.up.policies, *self.down.policies)), default=SYNC)


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """Fewest and most replicas while metrics decide; never fewer than one."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SpeedAnswer:
    """replicas: what to scale to. memory: what to remember. again: when rules will allow more, None if they held
    nothing back."""

    replicas: int
    memory: ScalingMemory
    again: datetime | None = None


_UP = (
    ScalingPolicy(type="Pods", value=4, period_seconds=SYNC),
    ScalingPolicy(type="Percent", value=100, period_seconds=SYNC),
)
_DOWN = (ScalingPolicy(type="Percent", value=100, period_seconds=SYNC),)


def read(behavior: Behavior | None, *, hold_in: bool = False, hold_out: bool = False) -> Speed:
    """The effective rules. hold_in, hold_out: that direction is paused, which is a `selectPolicy` of Disabled."""
    if behavior is None and not hold_in and not hold_out:
        return Speed(Direction(0), Direction(DOWN_WINDOW), Tolerance())
    up, down = (
        (behavior or Behavior()).scale_up or ScalingRules(),
        (behavior or Behavior()).scale_down or ScalingRules(),
    )
    return Speed(
        _direction(up, 0, _UP, disabled=hold_out),
        _direction(down, DOWN_WINDOW, _DOWN, disabled=hold_in),
        Tolerance(_share(up.tolerance), _share(down.tolerance)),
    )


def _direction(rules: ScalingRules, window: int, policies: tuple[ScalingPolicy, ...], *, disabled: bool) -> Direction:
    given = rules.stabilization_window_seconds
    select = "Disabled" if disabled else rules.select_policy or "Max"
    return Direction(window if given is None else given, select, rules.policies or policies)


def _share(quantity: str | None) -> float:
    if not quantity:
        return TOLERANCE
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def follow(
    proposal: int | None, current: int, bounds: ReplicaBounds, speed: Speed, memory: ScalingMemory | None, now: datetime
) -> SpeedAnswer:
    """How many replicas there are to be now, given how many are proposed.

    proposal: None changes nothing, but bounds hold always and at once. memory: None before the first time.
    """

    def young(memory: ScalingMemory) -> ScalingMemory:
        return memory.since(now, down=speed.down.window, up=speed.up.window, period=speed.period)

    # Before the first time, what is there counts as proposed until now.
    known = young(ScalingMemory().proposed(current, now) if memory is None else memory)
    if current > bounds.maximum or current < bounds.minimum:
        return SpeedAnswer(max(bounds.minimum, min(current, bounds.maximum)), known)
    if proposal is None:
        return SpeedAnswer(current, known)
    wanted = max(bounds.minimum, min(proposal, bounds.maximum))
    told = known.proposed(wanted, now)
    allowed = _limited(_stabilised(current, told), current, speed, known, now)
    remembered = young(told)
    if allowed != current:
        remembered = remembered.changed(allowed - current, now)
    ends: Iterator[datetime] = iter(())
    if allowed < wanted:
        ends = _expiries(speed.up, remembered.lows, remembered.changes)
    elif allowed > wanted:
        ends = _expiries(speed.down, remembered.highs, remembered.changes)
    return SpeedAnswer(allowed, remembered, min((end for end in ends if end > now), default=None))


def _stabilised(current: int, memory: ScalingMemory) -> int:
    """No lower than the highest proposal of the window down, no higher than the lowest of the window up."""
    return max(memory.lows[0].replicas, min(current, memory.highs[0].replicas))


def _limited(stable: int, current: int, speed: Speed, memory: ScalingMemory, now: datetime) -> int:
    """As far as the policies allow; they never turn the direction round."""
    if stable > current:
        return max(current, min(stable, _upmost(speed.up, current, memory, now)))
    if stable < current:
        return min(current, max(stable, _downmost(speed.down, current, memory, now)))
    return current


def _upmost(rules: Direction, current: int, memory: ScalingMemory, now: datetime) -> int:
    if rules.select == "Disabled":
        return current
    if not rules.policies:
        return max(2 * (current - memory.change(now, SYNC)), 4)
    limits = []
    for policy in rules.policies:
        start = current - memory.change(now, policy.period_seconds)
        share = policy.value if policy.type == "Pods" else ceil(start * policy.value / 100)
        limits.append(start + share)
    return min(limits) if rules.select == "Min" else max(limits)


def _downmost(rules: Direction, current: int, memory: ScalingMemory, now: datetime) -> int:
    if rules.select == "Disabled":
        return current
    if not rules.policies:
        return 0
    limits = []
    for policy in rules.policies:
        start = current - memory.change(now, policy.period_seconds)
        kept = start - policy.value if policy.type == "Pods" else int(start * (100 - policy.value) / 100)
        limits.append(max(0, kept))
    return max(limits) if rules.select == "Min" else min(limits)


def _expiries(rules: Direction, proposals: Sequence[MemoryEntry], changes: Sequence[MemoryEntry]) -> Iterator[datetime]:
    """When something that holds one direction back no longer does."""
    periods = {policy.period_seconds for policy in rules.policies} or {SYNC}
    spans = [(entry, rules.window) for entry in proposals]
    spans += [(entry, period) for entry in changes for period in periods]
    for entry, seconds in spans:
        yield entry.at + timedelta(seconds=seconds)
