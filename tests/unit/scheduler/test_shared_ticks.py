"""Work of one period runs at the same moments, wherever in a process it is; processes have phases of their own."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import shared_ticks
from tests.support.tables import for_each

PERIODS = st.floats(0.05, 100)
MOMENTS = st.floats(0, 1e6)


@for_each((1.0, 10.0, 0.0, 1.0), (1.0, 10.25, 0.0, 0.75), (1.0, 10.75, 0.0, 1.25), (2.0, 10.5, 0.5, 2.0))
def test_the_next_moment_is_at_least_half_a_period_away(every: float, now: float, phase: float, left: float) -> None:
    assert shared_ticks.until(every, now, phase) == left


@given(every=PERIODS, now=MOMENTS, phase=st.floats(0, 1))
def test_moments_are_multiples_of_the_period_behind_the_phase(every: float, now: float, phase: float) -> None:
    left = shared_ticks.until(every, now, phase)
    assert every / 2 - 1e-6 <= left <= every * 1.5 + 1e-6
    beats = (now + left - phase) / every
    assert abs(beats - round(beats)) < 1e-3


@given(now=MOMENTS, other=st.floats(0, 0.2), phase=st.floats(0, 1))
def test_a_long_period_ends_with_a_short_one(now: float, other: float, phase: float) -> None:
    ends = now + shared_ticks.until(2.0, now, phase)
    later = ends - other - 0.6
    assert abs(later + shared_ticks.until(1.0, later, phase) - ends) < 1e-6


@for_each((100, 100, True), (100, 101, False))
def test_each_process_has_a_phase_of_its_own(one: int, other: int, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def left(process: int) -> float:
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patched:
            patched.setattr(loop, "time", lambda: 1000.0)
            patched.setattr(os, "getpid", lambda: process)
            return shared_ticks.until_tick(1.0)

    assert (asyncio.run(left(one)) == asyncio.run(left(other))) is same
