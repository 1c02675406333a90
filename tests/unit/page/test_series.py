"""Series: bounded rings whose unknown numbers stay unknown; depths from readings."""

from datetime import UTC, datetime

from deploy.object_rows.row import Row
from deploy.page.live import sampler
from deploy.page.live.series import OBJECTS, POINTS, AllSeries, Point
from tests.support.tables import cases
from workers.decision.claims import ClaimLedger
from workers.decision.snapshot import Reading, TriggerSample


def test_a_full_ring_loses_its_oldest_points_only() -> None:
    series = AllSeries()
    for number in range(POINTS + 5):
        series.add({"a": Point(float(number), waiting=number, done=None)})
    found = series.since("a", 0)
    assert [point.at for point in found] == [float(number) for number in range(5, POINTS + 5)]
    assert found[0] == Point(5.0, waiting=5.0)
    assert [point.at for point in series.since("a", POINTS + 3.0)] == [POINTS + 3.0, POINTS + 4.0]
    assert series.since("b", 0) == []


def test_of_too_many_objects_the_newest_stay() -> None:
    series = AllSeries()
    series.add({f"old-{number}": Point(1.0) for number in range(OBJECTS)})
    series.add({"old-0": Point(2.0)})
    series.add({"new": Point(3.0)})
    assert len(series.since("old-0", 0)) == 2
    assert series.since("old-1", 0) == []
    assert series.since("new", 0) == [Point(3.0)]


def sample(value: float = 0.0, **more: object) -> TriggerSample:
    return TriggerSample("s0", str(more.pop("type", "redis")), value, **more)  # type: ignore[arg-type]


@cases(
    ("no reading", None, None),
    ("all triggers together", Reading(1, 1, 1, (sample(3), sample(4)), uid="u"), 7),
    ("below zero counts as nothing", Reading(1, 1, 1, (sample(-3), sample(4)), uid="u"), 4),
    ("one is unknown", Reading(1, 1, 1, (sample(3), sample(error="away")), uid="u"), None),
    ("of another object", Reading(1, 1, 1, (sample(3),), uid="other"), None),
    ("a problem", Reading(1, 1, 1, (), problem="malformed", uid="u"), None),
    ("usage is no depth", Reading(1, 1, 1, (sample(80, type="cpu"),), uid="u"), None),
    ("usage beside a depth", Reading(1, 1, 1, (sample(80, type="cpu"), sample(2)), uid="u"), 2),
)
def test_the_depth_of_a_reading(reading: Reading | None, expected: float | None) -> None:
    assert sampler.depth(reading, "u") == expected


@cases(
    ("no reading", None, None),
    ("nothing is claimed", Reading(1, 1, 1, (sample(3),), uid="u"), 0),
    ("the ledger was not read", Reading(1, 1, 1, (), uid="u", ledger=ClaimLedger("s0")), None),
    ("none", Reading(1, 1, 1, (), uid="u", ledger=ClaimLedger("s0", counts={"parked": 0})), 0),
    ("two", Reading(1, 1, 1, (), uid="u", ledger=ClaimLedger("s0", counts={"parked": 2})), 2),
    ("of another object", Reading(1, 1, 1, (), uid="x", ledger=ClaimLedger("s0", counts={"parked": 2})), None),
)
def test_the_parked_items_of_a_reading(reading: Reading | None, expected: int | None) -> None:
    assert sampler.parked(reading, "u") == expected


def test_a_point_takes_what_reading_and_row_know() -> None:
    row = Row("k", "n", "x", "u", None, "Active", "active", "", numbers={"running": 2, "waiting": 9})
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert sampler.point(row, 3.0, now) == Point(now.timestamp(), 3.0, None, 2, None)
    assert sampler.point(row, None, now).waiting == 9
    assert sampler.point_json(Point(0, 3.0, 0.5)) == {"waiting": 3, "pending": 0.5, "running": None, "done": None}
