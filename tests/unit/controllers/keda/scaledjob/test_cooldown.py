"""The cool-down after Jobs were created, on readings' own instants."""

from dataclasses import replace
from datetime import timedelta

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, child, entry, gone, micros, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import created, shape
from workers.api.kinds import JOB
from workers.controllers.keda.scaledjob import decide, names
from workers.decision.plan import ComeBack


def made_at(seconds, *, owner="work"):
    """The name of a Job that a poll at this instant made."""
    return names.of(owner, micros(seconds)).name(0)


def decided(*jobs, started=-1.0, cooldown=10, queue=5, **spec):
    body = scaled_job(**({"jobCreationCooldownSeconds": cooldown} if cooldown is not None else {}), **spec)
    return decide(snapshot(body, *jobs, reading=reading(sample(queue), id=micros(started), started=started)), NOW)


@cases(
    ("nothing was made before", [], {}, 5),
    ("the reading began too soon", [child(made_at(-5), "Complete")], {}, 0),
    ("Jobs that are gone count", [gone(made_at(-5))], {}, 0),
    ("no cool-down", [child(made_at(-5), "Complete")], {"cooldown": None}, 5),
    ("a cool-down of zero", [child(made_at(-5), "Complete")], {"cooldown": 0}, 5),
    ("the reading began late enough", [child(made_at(-12), "Complete")], {}, 5),
    ("just late enough", [child(made_at(-11), "Complete")], {}, 5),
    ("just too soon", [child(made_at(-10.9), "Complete")], {}, 0),
    ("the newest Job counts", [child(made_at(-60)), child(made_at(-5))], {}, 0),
    ("what this reading made it may go on making", [child(made_at(-1))], {}, 4),
    (
        "Jobs that no reading of this object made do not count",
        [child("by-hand", "Complete"), child(made_at(-5, owner="other"), "Complete")],
        {},
        5,
    ),
    ("the minimum is filled all the same", [child(made_at(-5))], {"minReplicaCount": 3}, 2),
    ("failed Jobs keep their place in it", [child(made_at(-5), "Failed", seen=0)], {"minReplicaCount": 1}, 0),
    ("and no more than the minimum", [child(made_at(-5))] * 3, {"minReplicaCount": 3}, 0),
)
def test_when_jobs_are_made(jobs, more, expected):
    assert len(created(decided(*jobs, **more))) == expected


def test_it_comes_back_when_the_cool_down_is_over_and_asks_for_a_reading_then():
    early = decided(child(made_at(-5), "Complete"))
    assert early.steps[-1] == ComeBack(NOW + timedelta(seconds=5))
    assert "PollNow" not in shape(early)
    late = decided(child(made_at(-12), "Complete"), started=-3)
    assert created(late) == []
    assert "PollNow" in shape(late)
    assert "cool-down" in late.why


def late(seconds, created):
    """A Job that a poll at this instant made, which the API server created later."""
    job = child(made_at(seconds), "Complete")
    return replace(job, body={**job.body, "metadata": {**job.body["metadata"], "creationTimestamp": at(created)}})


@cases(
    ("created ten seconds before the poll", late(-12, -11), 5),
    ("created too soon before it", late(-12, -10), 0),
    ("a clock that runs ahead keeps Jobs away for a while", late(-12, 3600), 0),
    ("and not for ever", late(-330, 3600), 5),
    ("a clock that lags behind shortens nothing", late(-5, -60), 0),
)
def test_the_count_begins_with_the_job_where_it_was_created_late(job, expected):
    assert len(created(decided(job))) == expected


def test_with_nothing_to_make_it_waits_for_nothing():
    assert [step for step in decided(child(made_at(-5)), queue=0).steps if isinstance(step, ComeBack)] == []


@for_each(
    ("work-10-0", 36),
    ("work-10-15", 36),
    ("work-10", None),
    ("work--0", None),
    ("work-1_0-1", None),
    ("x-10-0", None),
)
def test_the_reading_that_a_name_tells(name, expected):
    assert names.reading("work", name) == expected


@for_each("work", "a" * 60, "with.dots", "work-10")
def test_every_name_tells_its_reading(owner):
    assert names.reading(owner, names.of(owner, 1_790_000_000_123_456).name(7)) == 1_790_000_000_123_456


def test_a_tombstone_of_another_kind_of_name_is_no_reading():
    assert created(decided(entry(JOB, "crunch", None)))
