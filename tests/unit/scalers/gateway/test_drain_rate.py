"""The time until a full channel has room."""

import pytest

from scalers.gateway.drain_rate import LEAST, MOST, UNKNOWN, DrainRate, DrainRates


@pytest.mark.parametrize(
    ("readings", "now", "accepted", "waiting", "surplus", "seconds"),
    [
        pytest.param([], 0.0, 100, 100, 1, UNKNOWN, id="nothing known"),
        pytest.param([(0.0, 100, 100)], 0.5, 100, 90, 1, UNKNOWN, id="too short a time"),
        pytest.param([(0.0, 100, 100)], 10.0, 120, 100, 10, 5, id="20 done in 10 s"),
        pytest.param([(0.0, 100, 100)], 10.0, 1100, 100, 1, LEAST, id="quick"),
        pytest.param([(0.0, 100, 100)], 10.0, 100, 100, 1, MOST, id="nothing is done"),
        pytest.param([(0.0, 100, 100)], 10.0, 101, 100, 100, MOST, id="slow"),
        pytest.param([(0.0, 100, 100), (50.0, 100, 100), (70.0, 100, 100)], 80.0, 130, 100, 10, 10, id="a minute"),
        pytest.param([(0.0, 1000, 100), (5.0, 100, 100)], 10.0, 110, 100, 10, 5, id="the broker was emptied"),
    ],
)
def test_the_rate_of_the_last_minute_tells(
    readings: list[tuple[float, int, int]], now: float, accepted: int, waiting: int, surplus: int, seconds: int
) -> None:
    rate = DrainRate()
    for reading in readings:
        rate.note(*reading)
    assert rate.seconds_until(now, accepted, waiting, surplus) == seconds


def test_the_channels_that_were_pushed_to_last_are_remembered() -> None:
    rates = DrainRates()
    first = rates.of("first")
    assert rates.of("first") is first
    for number in range(1_000):
        rates.of(str(number))
    assert rates.of("first") is not first
