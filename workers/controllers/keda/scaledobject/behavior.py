"""Scaling behavior of a HorizontalPodAutoscaler: stabilization windows, policies, tolerances and bounds of replicas.

Each decision is independent, so the status remembers earlier proposals for the windows and changes for the policies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from workers.api import times
from workers.api.keda.scaledobject import Behavior, ScalingPolicy, ScalingRules
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject.trigger_metrics import TOLERANCE, Tolerance
from workers.decision.plan import Figure

#: Seconds between two decisions of an autoscaler.
SYNC = 15
#: Default window down (seconds): earlier proposals keep replicas for so long.
DOWN_WINDOW = 300
#: Most entries of each remembered list. Beyond that the two oldest become one, which keeps replicas a little longer.
MOST = 50


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """Replicas at an instant: proposed ones, or the difference of a change (above 0: added)."""

    at: datetime
    replicas: int


@dataclass(frozen=True, slots=True)
class ReadyPods:
    """Pods that were ready when metrics of type Value were first decided on. reading: the id of their reading."""

    reading: int
    pods: int


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """Earlier proposals and changes, oldest first.

    highs: proposals without a later one as high. lows: proposals without a later one as low. Only these can be the
    highest or lowest of a window that ends now. changes: of the replicas. ready: the pods that the last reading's
    metrics of type Value are multiplied with, None if there are none.
    """

    highs: tuple[MemoryEntry, ...] = ()
    lows: tuple[MemoryEntry, ...] = ()
    changes: tuple[MemoryEntry, ...] = ()
    ready: ReadyPods | None = None

    @classmethod
    def observed(cls, memory: Object) -> "ScalingMemory":
        """Returns the memory of a status, without entries that are malformed."""
        highs, lows, changes = (tuple(_entries(memory.get(name) or ())) for name in ("highs", "lows", "changes"))
        return cls(highs, lows, changes, _ready(memory.get("readyPods")))

    def render(self) -> Object:
        """Returns the memory as the status keeps it, without empty lists."""
        lists = {"highs": self.highs, "lows": self.lows, "changes": self.changes}
        rendered: Object = {
            name: [{"at": times.render(entry.at), "replicas": entry.replicas} for entry in entries]
            for name, entries in lists.items()
            if entries
        }
        if self.ready:
            rendered["readyPods"] = {"reading": self.ready.reading, "pods": self.ready.pods}
        return rendered

    def proposed(self, replicas: int, now: datetime) -> "ScalingMemory":
        """Returns the memory with one more proposal, at whole seconds as the status keeps them."""
        entry = MemoryEntry(now.replace(microsecond=0), replicas)
        highs = [known for known in self.highs if known.replicas > replicas]
        lows = [known for known in self.lows if known.replicas < replicas]
        return replace(self, highs=_bounded([*highs, entry]), lows=_bounded([*lows, entry]))

    def changed(self, difference: int, now: datetime) -> "ScalingMemory":
        """Returns the memory with one more change of the replicas."""
        at = now.replace(microsecond=0)
        if self.changes and self.changes[-1].at == at:
            difference += self.changes[-1].replicas
            return replace(self, changes=(*self.changes[:-1], MemoryEntry(at, difference)))
        changes = (*self.changes, MemoryEntry(at, difference))
        if len(changes) > MOST:
            first, second, *rest = changes
            changes = (MemoryEntry(second.at, first.replicas + second.replicas), *rest)
        return replace(self, changes=changes)

    def since(self, now: datetime, *, down: float, up: float, period: float) -> "ScalingMemory":
        """Returns the entries that still count. down, up: the windows; period: of the policies; all in seconds."""
        return replace(
            self,
            highs=_young(self.highs, now, down),
            lows=_young(self.lows, now, up),
            changes=_young(self.changes, now, period),
        )

    def change(self, now: datetime, period: float) -> int:
        """Returns replicas added less replicas removed within the last `period` seconds."""
        return sum(entry.replicas for entry in _young(self.changes, now, period))


def _young(entries: Sequence[MemoryEntry], now: datetime, seconds: float) -> tuple[MemoryEntry, ...]:
    limit = timedelta(seconds=seconds)
    return tuple(entry for entry in entries if now - entry.at < limit)


def _bounded(entries: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """Merges the two oldest entries: the replicas of the first until the second expires."""
    if len(entries) <= MOST:
        return tuple(entries)
    first, second, *rest = entries
    return (MemoryEntry(second.at, first.replicas), *rest)


def _entries(items: Sequence[Object]) -> Iterator[MemoryEntry]:
    for item in items:
        try:
            yield MemoryEntry(times.parse(item["at"]), int(item["replicas"]))
        except (KeyError, TypeError, ValueError):
            continue


def _ready(known: Object | None) -> ReadyPods | None:
    try:
        return ReadyPods(int(known["reading"]), int(known["pods"])) if known else None
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Direction:
    """The rules of one direction. window: seconds. policies: empty if the manifest has no `behavior`."""

    window: int
    select: Literal["Max", "Min", "Disabled"] = "Max"
    policies: tuple[ScalingPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalingBehavior:
    """The rules of both directions, defaults filled in."""

    up: Direction
    down: Direction
    tolerance: Tolerance

    @property
    def period(self) -> int:
        """Returns the seconds for which changes must be remembered."""
        return max((policy.period_seconds for policy in (*self.up.policies, *self.down.policies)), default=SYNC)


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """Fewest and most replicas while the metrics decide; never fewer than one."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class BehaviorAnswer:
    """replicas: to scale to. memory: for the status. again: when the rules allow more, None if they limit nothing."""

    replicas: int
    memory: ScalingMemory
    again: datetime | None = None


_UP = (
    ScalingPolicy(type="Pods", value=4, period_seconds=SYNC),
    ScalingPolicy(type="Percent", value=100, period_seconds=SYNC),
)
_DOWN = (ScalingPolicy(type="Percent", value=100, period_seconds=SYNC),)


def read(
    behavior: Behavior | None, *, scale_in_paused: bool = False, scale_out_paused: bool = False
) -> ScalingBehavior:
    """Returns the effective rules. A paused direction is a `selectPolicy` of Disabled."""
    if behavior is None and not scale_in_paused and not scale_out_paused:
        return ScalingBehavior(Direction(0), Direction(DOWN_WINDOW), Tolerance())
    given = behavior or Behavior()
    up, down = given.scale_up or ScalingRules(), given.scale_down or ScalingRules()
    return ScalingBehavior(
        _direction(up, 0, _UP, disabled=scale_out_paused),
        _direction(down, DOWN_WINDOW, _DOWN, disabled=scale_in_paused),
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
    proposal: int | None,
    current: int,
    bounds: ReplicaBounds,
    rules: ScalingBehavior,
    memory: ScalingMemory | None,
    now: datetime,
) -> BehaviorAnswer:
    """Returns the replicas that the rules allow now.

    proposal: None changes nothing, but the bounds always hold, at once. memory: None before the first decision.
    """

    def young(memory: ScalingMemory) -> ScalingMemory:
        return memory.since(now, down=rules.down.window, up=rules.up.window, period=rules.period)

    # Before the first decision the current replicas count as proposed until now.
    known = young(ScalingMemory().proposed(current, now) if memory is None else memory)
    if current > bounds.maximum or current < bounds.minimum:
        return BehaviorAnswer(max(bounds.minimum, min(current, bounds.maximum)), known)
    if proposal is None:
        return BehaviorAnswer(current, known)
    wanted = max(bounds.minimum, min(proposal, bounds.maximum))
    recorded = known.proposed(wanted, now)
    # At least the highest proposal of the window down, and at most the lowest of the window up.
    stable = max(recorded.lows[0].replicas, min(current, recorded.highs[0].replicas))
    allowed = _limited(stable, current, rules, known, now)
    remembered = young(recorded)
    if allowed != current:
        remembered = remembered.changed(allowed - current, now)
    ends: Iterator[datetime] = iter(())
    if allowed < wanted:
        ends = _expiries(rules.up, remembered.lows, remembered.changes)
    elif allowed > wanted:
        ends = _expiries(rules.down, remembered.highs, remembered.changes)
    return BehaviorAnswer(allowed, remembered, min((end for end in ends if end > now), default=None))


def _limited(stable: int, current: int, rules: ScalingBehavior, memory: ScalingMemory, now: datetime) -> int:
    """Returns the replicas that the policies allow; they never reverse the direction."""
    if stable > current:
        return max(current, min(stable, _upmost(rules.up, current, memory, now)))
    if stable < current:
        return min(current, max(stable, _downmost(rules.down, current, memory, now)))
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
    """Yields the instants at which entries stop limiting one direction."""
    periods = {policy.period_seconds for policy in rules.policies} or {SYNC}
    spans = [(entry, rules.window) for entry in proposals]
    spans += [(entry, period) for entry in changes for period in periods]
    for entry, seconds in spans:
        yield entry.at + timedelta(seconds=seconds)


def figures(bounds: ReplicaBounds, proposal: int | None, current: int, allowed: int) -> Iterator[Figure]:
    """Yields the arithmetic from the metrics' proposal to the allowed replicas."""
    yield Figure("minimum while the metrics decide", bounds.minimum)
    yield Figure("maximum", bounds.maximum)
    if proposal is None:
        how = f"{current}, nothing was proposed" if allowed == current else "the bounds"
        yield Figure("replicas to be", allowed, how)
        return
    wanted = max(bounds.minimum, min(proposal, bounds.maximum))
    yield Figure("proposed by the metrics", proposal)
    yield Figure("of these within the bounds", wanted, f"max({bounds.minimum}, min({proposal}, {bounds.maximum}))")
    yield Figure("replicas to be", allowed, "" if allowed == wanted else "held back by windows, policies or a pause")
