"""The time until a full channel has room."""

from scalers.gateway.drain_rate import LEAST, MOST, UNKNOWN, DrainRate, DrainRates
from tests.support.tables import cases


@cases(
    ("nothing known", [], 0.0, 100, 100, 1, UNKNOWN),
    ("too short a time", [(0.0, 100, 100)], 0.5, 100, 90, 1, UNKNOWN),
    ("20 done in 10 s", [(0.0, 100, 100)], 10.0, 120, 100, 10, 5),
    ("quick", [(0.0, 100, 100)], 10.0, 1100, 100, 1, LEAST),
    ("nothing is done", [(0.0, 100, 100)], 10.0, 100, 100, 1, MOST),
    ("slow", [(0.0, 100, 100)], 10.0, 101, 100, 100, MOST),
    ("a minute", [(0.0, 100, 100), (50.0, 100, 100), (70.0, 100, 100)], 80.0, 130, 100, 10, 10),
    ("the broker was emptied", [(0.0, 1000, 100), (5.0, 100, 100)], 10.0, 110, 100, 10, 5),
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
