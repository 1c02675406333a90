"""The lag of a consumer group by KEDA's rules. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as a group sees it.

    latest: the offset of the next message, None if the broker does not know the partition. committed: the group's
    offset, None if it has none. before: the one at the last poll.
    """

    latest: int | None
    committed: int | None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class LagRules:
    """The rules of one trigger, as its parameters of similar names say."""

    threshold: int = 10
    earliest: bool = False
    zero_without_offset: bool = False
    exclude_persistent: bool = False
    allow_idle: bool = False
    with_lag_only: bool = False
    even: bool = False


@dataclass(frozen=True, slots=True)
class Lag:
    """Messages. value: after all limits, for the number of Jobs. total: before them, for the activity."""

    value: int
    total: int


def combined(partitions: Iterable[Partition], rules: LagRules) -> Lag:
    """Returns the lag of all partitions, no more than their consumers can share."""
    lags = [_lag(partition, rules) for partition in partitions]
    value = sum(lag.value for lag in lags)
    total = sum(lag.total for lag in lags)
    if rules.even and value > 0:
        value = _divisor(len(lags), value, rules.threshold) * rules.threshold
    if rules.allow_idle:
        return Lag(value, total)
    cap = sum(lag.value > 0 for lag in lags) if rules.with_lag_only else len(lags)
    # Whole consumers are compared: 39 messages over 3 partitions at 10 each pass as they are.
    return Lag(cap * rules.threshold if value // rules.threshold > cap else value, total)


def _lag(partition: Partition, rules: LagRules) -> Lag:
    if partition.latest is None:
        return Lag(0, 0)
    if partition.committed is None:
        if rules.zero_without_offset:
            return Lag(0, 0)
        lag = partition.latest if rules.earliest else 1
        return Lag(lag, lag)
    lag = max(0, partition.latest - partition.committed)
    stuck = rules.exclude_persistent and partition.before == partition.committed
    return Lag(0 if stuck else lag, lag)


def _divisor(partitions: int, lag: int, threshold: int) -> int:
    """Returns the fewest consumers that share the partitions evenly and suffice for the lag, or one per partition."""
    for count in range(1, partitions + 1):
        if partitions % count == 0 and count * threshold >= lag:
            return count
    return partitions


def numbers(text: str) -> frozenset[int] | None:
    """Returns the partitions of a text such as ``1,2,5-8``; None for all. Raises ValueError."""
    if not text.strip():
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise ValueError("must be partitions such as 1,2,5-8")
        if dash and int(last) - int(first) > 100_000:
            raise ValueError("must be at most 100000 partitions")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)
