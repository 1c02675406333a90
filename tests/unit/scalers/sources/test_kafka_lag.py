"""The arithmetic of consumer lag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalers.sources.messaging.kafka_lag import Lag, LagRules, Partition, combined, numbers
from tests.support.tables import cases, for_each


def lag(*lags: int) -> list[Partition]:
    """Partitions with these many messages that are not consumed yet."""
    return [Partition(100 + each, 100) for each in lags]


@cases(
    ("latest minus committed", Partition(12, 5), LagRules(), Lag(7, 7)),
    ("all consumed", Partition(5, 5), LagRules(), Lag(0, 0)),
    ("a topic made anew lags by nothing", Partition(0, 5), LagRules(), Lag(0, 0)),
    ("the broker does not know it", Partition(None, 5), LagRules(), Lag(0, 0)),
    ("nothing committed, from the latest", Partition(9, None), LagRules(), Lag(1, 1)),
    ("nothing committed, from the earliest", Partition(9, None), LagRules(earliest=True), Lag(9, 9)),
    ("latest, and then nothing", Partition(9, None), LagRules(zero_without_offset=True), Lag(0, 0)),
    ("earliest, then nothing", Partition(9, None), LagRules(earliest=True, zero_without_offset=True), Lag(0, 0)),
    ("stuck, and counted", Partition(9, 5, 5), LagRules(), Lag(4, 4)),
    ("stuck, and left out", Partition(9, 5, 5), LagRules(exclude_persistent=True), Lag(0, 4)),
    ("it moves", Partition(9, 5, 4), LagRules(exclude_persistent=True), Lag(4, 4)),
    ("the first look", Partition(9, 5), LagRules(exclude_persistent=True), Lag(4, 4)),
)
def test_one_partition(partition: Partition, rules: LagRules, expected: Lag) -> None:
    assert combined([partition], rules) == expected


@cases(
    ("no partitions", (), LagRules(), Lag(0, 0)),
    ("below the cap", (5, 5, 5), LagRules(), Lag(15, 15)),
    ("39 over 3 passes", (13, 13, 13), LagRules(), Lag(39, 39)),
    ("40 over 3 is capped", (13, 13, 14), LagRules(), Lag(30, 40)),
    ("idle consumers are allowed", (40, 0, 0), LagRules(allow_idle=True), Lag(40, 40)),
    ("one partition lags", (40, 0, 0), LagRules(with_lag_only=True), Lag(10, 40)),
    ("two of three lag", (20, 20, 0), LagRules(with_lag_only=True), Lag(20, 40)),
    ("none lags", (0, 0, 0), LagRules(with_lag_only=True), Lag(0, 0)),
    ("3 share 6 evenly", (25, 0, 0, 0, 0, 0), LagRules(even=True), Lag(30, 25)),
    ("4 do not, 6 do", (31, 0, 0, 0, 0, 0), LagRules(even=True), Lag(60, 31)),
    ("more than there are partitions", (99, 0, 0, 0, 0, 0), LagRules(even=True), Lag(60, 99)),
    ("nothing is shared evenly", (0, 0), LagRules(even=True), Lag(0, 0)),
    ("another threshold", (1, 1), LagRules(threshold=1), Lag(2, 2)),
)
def test_several_partitions(lags: tuple[int, ...], rules: LagRules, expected: Lag) -> None:
    assert combined(lag(*lags), rules) == expected


LAGS = st.lists(st.integers(0, 10_000), max_size=40)


@given(LAGS, st.integers(1, 100), st.booleans(), st.booleans())
def test_no_more_consumers_than_partitions(lags: list[int], threshold: int, with_lag: bool, even: bool) -> None:
    rules = LagRules(threshold=threshold, with_lag_only=with_lag, even=even and not with_lag)
    found = combined(lag(*lags), rules)
    assert found.value // threshold <= len(lags)
    assert found.total == sum(lags)
    assert (found.value > 0) == (found.total > 0)
    if rules.even and found.value:
        assert len(lags) % (found.value // threshold) == 0


@for_each(("", None), (" ", None), ("3", {3}), ("1, 2,5-8", {1, 2, 5, 6, 7, 8}), ("4-4", {4}))
def test_partitions_by_their_numbers(text: str, expected: set[int] | None) -> None:
    assert numbers(text) == (None if expected is None else frozenset(expected))


@for_each("a", "1,", "-1", "2-1", "1-", "1-2-3", "0-999999999")
def test_what_are_no_partitions(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        numbers(text)
