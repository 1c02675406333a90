"""How long the effects of plans side by side wait for each other."""

import pytest

from tests.support.tables import cases
from workers.cache.write_through import pause


@cases(
    ("a plan alone", 1, 0.0),
    ("few, which may each be one of a chain", 7, 0.0),
    ("some", 8, 0.005),
    ("as many as the shortest pause allows for", 50, 0.005),
    ("more", 200, 0.02),
    ("a minute's schedules", 1000, 0.05),
)
def test_the_more_plans_are_at_work_the_longer_their_effects_wait(plans: int, seconds: float) -> None:
    assert pause(plans) == pytest.approx(seconds)
