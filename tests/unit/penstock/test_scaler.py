"""Number form, metric names, and what a scaler gets without writing it."""

import asyncio
import gc
import math
from collections.abc import Sequence
from typing import ClassVar

import pytest

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, attempt, metric_name, milli, parameter
from tests.support.tables import cases


class Constant(Scaler):
    """Measures what it is told."""

    value: float = parameter(1.0)

    metric: ClassVar[str] = "constant"
    target: ClassVar[float] = 1.0

    async def measure(self) -> float:
        if self.value < 0:
            raise ValueError(f"below zero: {self.value}")
        return self.value


@cases(
    ("whole", 3.0, 3.0),
    ("less than half a thousandth", 0.0004, 0.0),
    ("more than half a thousandth", 0.0006, 0.001),
    ("a half, whose binary value lies above", 0.0005, 0.001),
    ("a half, exact: to even", 0.0625, 0.062),
    ("negative", -1.0, 0.0),
    ("not a number", math.nan, 0.0),
    ("infinite", math.inf, 0.0),
)
def test_a_value_has_kedas_resolution(value: float, kept: float) -> None:
    assert milli(value) == kept


def test_a_metric_name_is_cleaned_as_keda_does() -> None:
    assert metric_name(3, "redis-a/b.c:d%e(f)_g") == "s3-redis-a-b-c-d-e-f-_g"


async def test_measuring_side_by_side_keeps_order_and_failures_apart() -> None:
    scalers = [Constant(value=2), Constant(value=-1), Constant(value=3)]
    first, second, third = await Constant.read(scalers, Connections())
    assert (first, third) == (2, 3)
    assert isinstance(second, ValueError)


async def test_when_nothing_can_be_measured_the_server_has_failed() -> None:
    with pytest.raises(ValueError, match="below zero"):
        await Constant.read([Constant(value=-1), Constant(value=-2)], Connections())


async def test_a_class_that_measures_nothing_says_so() -> None:
    class Nothing(Constant):
        measure = Scaler.measure

    with pytest.raises(NotImplementedError, match="Nothing defines neither measure nor read"):
        await Nothing.read([Nothing()], Connections())


async def test_many_may_be_read_at_once() -> None:
    class Together(Constant):
        @classmethod
        async def read(cls, scalers: Sequence["Together"], connections: Connections) -> list[Measure]:
            return [Measure(scaler.value, active=True) for scaler in scalers]

    assert await Together.read([Together(value=4)], Connections()) == [Measure(4, active=True)]


async def test_a_question_that_is_given_up_before_its_turn_is_not_even_put() -> None:
    """A question that was put and is never awaited is a warning, which is an error here."""
    asked = []

    async def ask() -> float:
        asked.append(1)
        return 1.0

    scaler = Constant.model_construct()
    given_up = asyncio.ensure_future(attempt(scaler, ask, 1.0))
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    gc.collect()
    assert given_up.cancelled()
    assert asked == []
