"""The arithmetic of consumer lag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalers.sources.messaging.kafka_lag import Lag, LagRules, Partition, combined, numbers


def lag(*lags: int) -> list[Partition]:
    """Partitions with these many messages that are not consumed yet."""
    return [Partition(100 + each, 100) for each in lags]


@pytest.mark.parametrize(
    ("partition", "rules", "expected"),
    [
        pytest.param(Partition(12, 5), LagRules(), Lag(7, 7), id="latest minus committed"),
        pytest.param(Partition(5, 5), LagRules(), Lag(0, 0), id="all consumed"),
        pytest.param(Partition(0, 5), LagRules(), Lag(0, 0), id="a topic made anew lags by nothing"),
        pytest.param(Partition(None, 5), LagRules(), Lag(0, 0), id="the broker does not know it"),
        pytest.param(Partition(9, None), LagRules(), Lag(1, 1), id="nothing committed, from the latest"),
        pytest.param(Partition(9, None), LagRules(earliest=True), Lag(9, 9), id="nothing committed, from the earliest"),
        pytest.param(Partition(9, None), LagRules(zero_without_offset=True), Lag(0, 0), id="latest, and then nothing"),
        pytest.param(
            Partition(9, None),
            LagRules(earliest=True, zero_without_offset=True),
            Lag(0, 0),
            id="earliest, then nothing",
        ),
        pytest.param(Partition(9, 5, 5), LagRules(), Lag(4, 4), id="stuck, and counted"),
        pytest.param(Partition(9, 5, 5), LagRules(exclude_persistent=True), Lag(0, 4), id="stuck, and left out"),
        pytest.param(Partition(9, 5, 4), LagRules(exclude_persistent=True), Lag(4, 4), id="it moves"),
        pytest.param(Partition(9, 5), LagRules(exclude_persistent=True), Lag(4, 4), id="the first look"),
    ],
)
def test_one_partition(partition: Partition, rules: LagRules, expected: Lag) -> None:
    assert combined([partition], rules) == expected


@pytest.mark.parametrize(
    ("lags", "rules", "expected"),
    [
        pytest.param((), LagRules(), Lag(0, 0), id="no partitions"),
        pytest.param((5, 5, 5), LagRules(), Lag(15, 15), id="below the cap"),
        pytest.param((13, 13, 13), LagRules(), Lag(39, 39), id="39 over 3 passes"),
        pytest.param((13, 13, 14), LagRules(), Lag(30, 40), id="40 over 3 is capped"),
        pytest.param((40, 0, 0), LagRules(allow_idle=True), Lag(40, 40), id="idle consumers are allowed"),
        pytest.param((40, 0, 0), LagRules(with_lag_only=True), Lag(10, 40), id="one partition lags"),
        pytest.param((20, 20, 0), LagRules(with_lag_only=True), Lag(20, 40), id="two of three lag"),
        pytest.param((0, 0, 0), LagRules(with_lag_only=True), Lag(0, 0), id="none lags"),
        pytest.param((25, 0, 0, 0, 0, 0), LagRules(even=True), Lag(30, 25), id="3 share 6 evenly"),
        pytest.param((31, 0, 0, 0, 0, 0), LagRules(even=True), Lag(60, 31), id="4 do not, 6 do"),
        pytest.param((99, 0, 0, 0, 0, 0), LagRules(even=True), Lag(60, 99), id="more than there are partitions"),
        pytest.param((0, 0), LagRules(even=True), Lag(0, 0), id="nothing is shared evenly"),
        pytest.param((1, 1), LagRules(threshold=1), Lag(2, 2), id="another threshold"),
    ],
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), (" ", None), ("3", {3}), ("1, 2,5-8", {1, 2, 5, 6, 7, 8}), ("4-4", {4})],
)
def test_partitions_by_their_numbers(text: str, expected: set[int] | None) -> None:
    assert numbers(text) == (None if expected is None else frozenset(expected))


@pytest.mark.parametrize("text", ["a", "1,", "-1", "2-1", "1-", "1-2-3", "0-999999999"])
def test_what_are_no_partitions(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        numbers(text)
