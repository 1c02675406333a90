"""Servers that are left alone: in the status while they are, and one Event at either end."""

from tests.unit.controllers.factories import NOW, at, micros, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import shape, status_of
from workers.controllers.keda.scaledjob import decide
from workers.decision.plan import RecordEvent

ALONE = {"error": "no route", "source": "redis:6379", "alone_since": micros(-60)}


def decided(body, *samples, id=36):
    plan = decide(snapshot(body, reading=reading(*samples, id=id)), NOW)
    told = [step for step in plan.steps if isinstance(step, RecordEvent) and step.reason.startswith("Source")]
    return plan, told


def after(body, plan):
    return {**body, "status": status_of(plan)}


def test_which_server_since_when_why_and_when_it_is_asked_again():
    plan, told = decided(scaled_job(), sample(**ALONE, next_attempt=micros(8)))
    assert status_of(plan)["sourcesLeftAlone"] == [
        {
            "trigger": "s0-redis-work",
            "source": "redis:6379",
            "since": at(-60),
            "reason": "no route",
            "nextAttempt": at(8),
        }
    ]
    assert told == [RecordEvent("Warning", "SourceLeftAlone", "redis:6379 fails and is asked less often: no route")]


def test_it_is_told_once_at_either_end_and_the_field_goes():
    body = scaled_job()
    opened, _ = decided(body, sample(**ALONE, next_attempt=micros(8)), sample(name="s1", **ALONE))
    body = after(body, opened)
    tried, told = decided(body, sample(**ALONE, next_attempt=micros(16)), sample(name="s1", **ALONE), id=37)
    assert told == []
    assert status_of(tried)["sourcesLeftAlone"][0]["nextAttempt"] == at(16)
    body = after(body, tried)
    closed, told = decided(body, sample(0), sample(0, name="s1"), id=38)
    assert told == [RecordEvent("Normal", "SourceAnswersAgain", "redis:6379 answers again")]
    assert "sourcesLeftAlone" not in status_of(closed)


def test_two_triggers_of_one_server_are_one_event():
    _, told = decided(scaled_job(), sample(**ALONE), sample(name="s1", **ALONE))
    assert len(told) == 1


def test_without_a_reading_nothing_is_told_and_what_was_known_stays():
    body = scaled_job()
    body = after(body, decided(body, sample(**ALONE))[0])
    plan = decide(snapshot(body), NOW)
    assert shape(plan) == ["PollNow"]


def test_an_object_whose_servers_answer_has_no_such_field():
    assert "sourcesLeftAlone" not in status_of(decided(scaled_job(), sample(0))[0])
