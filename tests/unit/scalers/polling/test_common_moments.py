"""The moments at which objects of one polling interval are polled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalers.polling.object_poll import COMMON, LONGEST_COMMON, common_moment
from tests.support.tables import cases


@cases(
    ("thirty seconds", 1030.4, 30.0, 1030.0),
    ("the nearest, not the one before", 1030.6, 30.0, 1031.0),
    ("one second", 1001.01, 1.0, 1001.0),
    ("long intervals fall on whole seconds", 4600.2, 3600.0, 4600.0),
)
def test_a_poll_falls_on(moment: float, every: float, polled: float) -> None:
    assert common_moment(moment, every) == pytest.approx(polled)


def test_objects_that_began_at_any_time_share_few_moments() -> None:
    moments = {round(common_moment(1_000_000 + began / 1000 + 30, 30.0), 6) for began in range(0, 30_000, 7)}
    assert len(moments) <= COMMON + 1


@given(st.floats(1.7e9, 1.9e9), st.floats(0.25, 86_400), st.floats(0, 0.4))
def test_after_the_first_poll_the_interval_is_exact(moment: float, every: float, lateness: float) -> None:
    apart = min(every / COMMON, LONGEST_COMMON)
    first = common_moment(moment, every)
    assert abs(first - moment) <= apart / 2 + 1e-5
    # A poll that begins a little late does not move the next one.
    second = common_moment(first + lateness * apart + every, every)
    assert second - first == pytest.approx(every, abs=1e-5)
