"""KEDA's behaviour where ours differs, for those who ask for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, at, child, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import created, events, shape, status_of
from workers.api.keda.scaledjob import ScalingStrategy
from workers.controllers import registry
from workers.controllers.keda.scaledjob import decide, scaling_strategies
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand, JobBounds
from workers.decision.plan import RecordEvent, Together
from workers.settings import Settings

COUNTING = frozenset({"poll-counting"})
TEN = JobBounds(0, 10)


def waiting(events):
    return Demand(queue=events, scale=min(events, 10), whole=events, active=events > 0)


@cases(
    ("default: where nothing moved they agree", "default", 5, JobCounts(2, 0, 0, 0, 0), 3, 3),
    ("default: room is filled with the next poll only", "default", 50, JobCounts(9, 0, 1, 10, 1), 1, 0),
    ("default: nothing is made twice", "default", 5, JobCounts(3, 0, 2, 5, 2), 0, 0),
    ("accurate: a Job whose start the poll cannot have seen", "accurate", 5, JobCounts(4, 0, 0, 0, 1), 4, 4),
    ("accurate: Jobs that ended since were there at the poll", "accurate", 5, JobCounts(4, 0, 2, 0, 2), 3, 3),
    ("accurate: room is filled with the next poll only", "accurate", 50, JobCounts(9, 0, 1, 10, 1), 1, 0),
)
def test_counting_per_poll(strategy, events, counts, ours, kedas):
    asked = ScalingStrategy(strategy=strategy)
    assert scaling_strategies.justified(asked, waiting(events), counts, TEN) == ours
    assert scaling_strategies.justified(asked, waiting(events), counts, TEN, COUNTING) == kedas


def test_counting_per_poll_asks_for_no_reading_out_of_turn():
    seen = snapshot(scaled_job(), child("work-z-0", "Complete", seen=0), reading=reading(sample(3)))
    assert "PollNow" in shape(decide(seen, NOW))
    assert "PollNow" not in shape(decide(seen, NOW, COUNTING))
    assert len(created(decide(seen, NOW, COUNTING))) == 2


@given(
    strategy=st.sampled_from(["default", "accurate", "eager"]),
    events=st.integers(0, 30),
    running=st.integers(0, 12),
    late=st.integers(0, 5),
    data=st.data(),
)
def test_no_quirk_goes_beyond_the_maximum(strategy, events, running, late, data):
    made = data.draw(st.integers(0, running + late))
    counts = JobCounts(running, 0, late, made, late)
    more = scaling_strategies.justified(ScalingStrategy(strategy=strategy), waiting(events), counts, TEN, COUNTING)
    assert running + more <= max(running, 10)


@cases(("without", frozenset()), ("with", COUNTING))
def test_no_quirk_takes_a_failure_for_zero(quirks):
    before = scaled_job(status={"triggersActivity": {"s0-redis-work": {"isActive": True}}})
    plan = decide(snapshot(before, reading=reading(sample(error="no route"))), NOW, quirks)
    assert created(plan) == []
    assert status_of(plan)["triggersActivity"] == {"s0-redis-work": {"isActive": True}}


@cases(("without", frozenset(), -1), ("with", frozenset({"last-active-time"}), 0))
def test_last_active_time(quirks, expected):
    body = scaled_job(status={"lastActiveTime": at(-1)})
    plan = decide(snapshot(body, child("work-10-0"), reading=reading(sample(1))), NOW, quirks)
    assert status_of(plan)["lastActiveTime"] == at(expected)


def test_the_event_of_created_jobs_may_count_the_requested_ones():
    seen = snapshot(scaled_job(), reading=reading(sample(3)))
    ours, kedas = decide(seen, NOW), decide(seen, NOW, frozenset({"requested-jobs-event"}))
    requested = RecordEvent("Normal", "KEDAJobsCreated", "Created 3 jobs")
    assert requested not in ours.steps
    stage = next(step for step in kedas.steps if isinstance(step, Together))
    assert stage.then is None
    assert kedas.steps.index(requested) < kedas.steps.index(stage), "whatever becomes of the creates"
    idle = snapshot(scaled_job(), reading=reading(sample(0)))
    assert "KEDAJobsCreated" not in events(decide(idle, NOW, frozenset({"requested-jobs-event"})))


def test_quirks_are_asked_for_by_name(monkeypatch):
    monkeypatch.setenv("PENSTOCK_KEDA_QUIRKS", "poll-counting, last-active-time")
    assert Settings().keda_quirks == ("poll-counting", "last-active-time")
    monkeypatch.setenv("PENSTOCK_KEDA_QUIRKS", "everything")
    with pytest.raises(ValidationError, match="poll-counting"):
        Settings()


def test_the_controller_decides_with_them():
    seen = snapshot(scaled_job(), child("work-z-0", "Complete", seen=0), reading=reading(sample(3)))
    with_them = registry.controllers("managed", cronjobs=False, quirks=COUNTING)["scaledjobs.keda.sh"]
    assert "PollNow" not in shape(with_them.decide(seen, NOW))
