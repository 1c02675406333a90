"""What the `external` triggers make of a server's metrics; a ScaledJob and a ScaledObject combine several otherwise."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.external.trigger import External
from tests.support.tables import cases

AGE, DEPTH, LONE = ("age", 10, (100,)), ("depth", 1000, (60_000, 40_000)), ("lone", 5, (12,))
#: Metrics without values cannot be measured.
LOST, GONE = ("lost", 5, ()), ("gone", 5, ())


class Server:
    """Answers as the client of a server whose metrics have these names, targets and values."""

    def __init__(self, metrics: tuple[tuple[str, float, tuple[float, ...]], ...]) -> None:
        self.metrics = metrics

    async def specs(self, _: Any) -> Any:
        return [SimpleNamespace(metricName=name, targetSize=0, targetSizeFloat=to) for name, to, _ in self.metrics]

    async def values(self, _: Any, metric: str) -> Any:
        values = next(values for name, _, values in self.metrics if name == metric)
        if not values:
            raise SourceError(f"no {metric}")
        return [SimpleNamespace(metricName="other", metricValue=0, metricValueFloat=value) for value in values]

    async def active(self, _: Any) -> bool:
        return True


async def measured(kind: str, *metrics: tuple[str, float, tuple[float, ...]]) -> Measure:
    trigger = Trigger(0, "external", metadata={"scalerAddress": "scaler:9090"}, owner="work", kind=kind)
    return await External.parse(trigger).ask(Server(metrics))  # type: ignore[arg-type]


@cases(
    ("one metric", (LONE,), (12, 5), (12, 5)),
    ("the largest ratio first", (DEPTH, AGE), (100_000, 505), (100_000, 1000)),
    ("the largest ratio last", (AGE, DEPTH), (100, 505), (100_000, 1000)),
    ("small numbers may have the largest ratio", (DEPTH, ("age", 0.5, (51,))), (100_000, 500.25), (51, 0.5)),
    ("a metric without a target: its proposal is unknown", (AGE, ("lone", 0, (1,))), (100, 5), (1, 0)),
    ("a value that is no finite number is nothing", (AGE, ("lone", 5, (float("inf"),))), (100, 7.5), (100, 10)),
    ("no metric", (), (0, 0), (0, 0)),
)
async def test_several_metrics(
    metrics: tuple[Any, ...], of_a_job: tuple[float, float], of_an_object: tuple[float, float]
) -> None:
    """of_a_job, of_an_object: value and target."""
    for kind, (value, target) in (("ScaledJob", of_a_job), ("ScaledObject", of_an_object)):
        assert await measured(kind, *metrics) == Measure(value, active=bool(metrics), target=target), kind


@cases(
    ("the last fails", (AGE, LOST), (100, 10), "no lost"),
    ("the first fails", (LOST, AGE, DEPTH), (100_000, 1000), "no lost"),
    ("two fail", (LOST, AGE, GONE), (100, 10), "no lost; no gone"),
)
async def test_the_metrics_that_are_known_count_for_a_scaledobject_if_others_fail(
    metrics: tuple[Any, ...], largest: tuple[float, float], reason: str
) -> None:
    value, target = largest
    assert await measured("ScaledObject", *metrics) == Measure(value, active=True, target=target, incomplete=reason)


async def test_a_scaledobject_none_of_whose_metrics_is_known_is_unknown() -> None:
    with pytest.raises(SourceError, match="no lost"):
        await measured("ScaledObject", LOST, GONE)


async def test_a_failed_first_metric_makes_a_scaledjob_unknown() -> None:
    with pytest.raises(SourceError, match="no lost"):
        await measured("ScaledJob", LOST, AGE)


async def test_two_metrics_of_one_name_are_refused_for_a_scaledobject() -> None:
    with pytest.raises(SourceError, match="scaler:9090: two metrics are called 'age'"):
        await measured("ScaledObject", AGE, DEPTH, AGE)
    assert await measured("ScaledJob", AGE, AGE) == Measure(200, active=True, target=10)
