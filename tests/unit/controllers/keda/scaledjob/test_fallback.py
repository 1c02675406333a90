"""A ScaledJob's fallback: what is kept alive while triggers fail, from which poll on, and what is told of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import NOW, child, gone, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import created, events, status_of
from workers.api.keda import scaledjob
from workers.controllers.keda.scaledjob import decide
from workers.errors import UserError

FIXED = {"failureThreshold": 2, "replicas": 3}
HOLD = {"failureThreshold": 2, "behavior": "hold"}


def failing(failures, *, last=None, name="s0-redis-work"):
    return sample(name=name, error="no route", failures=failures, last=last)


def made(fallback, *children, samples, **spec):
    body = scaled_job(**({"fallback": fallback} if fallback else {}), **spec)
    return len(created(decide(snapshot(body, *children, reading=reading(*samples)), NOW)))


@pytest.mark.parametrize(
    ("fallback", "samples", "spec", "expected"),
    [
        pytest.param(None, [failing(0)], {}, 0, id="no fallback: unknown makes nothing"),
        pytest.param(FIXED, [failing(2)], {}, 0, id="as many failures as are allowed"),
        pytest.param(FIXED, [failing(3)], {}, 3, id="one more"),
        pytest.param({"replicas": 2}, [failing(3)], {}, 0, id="three are allowed when nothing is said"),
        pytest.param({"replicas": 2}, [failing(4)], {}, 2, id="and the fourth is too many"),
        pytest.param({"replicas": 2, "failureThreshold": 0}, [failing(1)], {}, 2, id="from the first poll on"),
        pytest.param({**FIXED, "behavior": "none"}, [failing(3)], {}, 0, id="behavior none"),
        pytest.param(
            {**FIXED, "replicas": 50}, [failing(3)], {"maxReplicaCount": 4}, 4, id="never more than the maximum"
        ),
        pytest.param(FIXED, [failing(3)], {"minReplicaCount": 2, "maxReplicaCount": 10}, 5, id="on top of the minimum"),
        pytest.param(
            FIXED, [failing(3)], {"scalingStrategy": {"strategy": "accurate"}}, 3, id="whatever the strategy: accurate"
        ),
        pytest.param(
            FIXED, [failing(3)], {"scalingStrategy": {"strategy": "eager"}}, 3, id="whatever the strategy: eager"
        ),
        pytest.param(FIXED, [failing(3), sample(5, name="s1")], {}, 5, id="a trigger that works asks for more"),
        pytest.param(FIXED, [failing(3), sample(1, name="s1")], {}, 3, id="a trigger that works asks for less"),
        pytest.param(HOLD, [failing(3, last=2.5)], {}, 3, id="hold keeps what was asked for last"),
        pytest.param(HOLD, [failing(3)], {}, 0, id="hold without a last value keeps nothing"),
        pytest.param(
            HOLD, [failing(3, last=2), failing(3, last=4, name="s1")], {}, 4, id="hold takes the larger of two"
        ),
        pytest.param(HOLD, [failing(3, last=200)], {"maxReplicaCount": 7}, 7, id="hold under the maximum"),
    ],
)
def test_what_a_fallback_makes(fallback, samples, spec, expected):
    assert made(fallback, samples=samples, **spec) == expected


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([child("work-z-0"), child("work-z-1")], 1),
        ([child("work-z-0", "Complete"), gone("work-z-1")], 3),
        ([child("work-z-0", "Failed", seen=0)], 2),
        ([child("work-10-0"), child("work-10-1"), child("work-10-2", "Complete", seen=0)], 0),
        ([child(f"work-z-{i}") for i in range(9)], 0),
    ],
    ids=[
        "Jobs alive count",
        "Jobs that ended before the reading are replaced",
        "Jobs that ended since wait for the next one",
        "the same reading again makes no more",
        "more than enough",
    ],
)
def test_a_fallback_replaces_jobs_once_per_reading(children, expected):
    assert made(FIXED, *children, samples=[failing(3)]) == expected


def told(fallback, before=None, **of):
    body = scaled_job(**({"fallback": fallback} if fallback else {}), **({"status": before} if before else {}))
    plan = decide(snapshot(body, **of), NOW)
    condition = next(each for each in status_of(plan)["conditions"] if each["type"] == "Fallback")
    return condition["status"], condition.get("reason"), condition.get("message", ""), plan


def test_the_condition_and_events_tell_of_beginning_and_end():
    fine = told(FIXED, reading=reading(sample(0)))
    assert fine[:2] == ("False", "NoFallbackFound")
    assert not [each for each in events(fine[3]) if "Fallback" in each]
    begun = told(FIXED, status_of(fine[3]), reading=reading(failing(3)))
    assert begun[:2] == ("True", "FallbackExists")
    assert "3 Jobs" in begun[2]
    assert "s0-redis-work" in begun[2]
    assert events(begun[3]).count("ScaledJobFallbackActivated") == 1
    over = told(FIXED, status_of(begun[3]), reading=reading(sample(0), id=37))
    assert over[:2] == ("False", "NoFallbackFound")
    assert "ScaledJobFallbackDeactivated" in events(over[3])


def test_with_nothing_to_hold_the_condition_says_so():
    assert "nothing to hold: s0-redis-work" in told(HOLD, reading=reading(failing(3)))[2]


def test_without_a_fallback_the_condition_stays_as_keda_writes_it():
    assert told(None, reading=reading(failing(0)))[:2] == ("Unknown", None)


def test_a_fallback_is_active():
    plan = told(FIXED, reading=reading(failing(3)))[3]
    conditions = {each["type"]: each["status"] for each in status_of(plan)["conditions"]}
    assert (conditions["Active"], conditions["Ready"]) == ("True", "Unknown")


@given(
    replicas=st.integers(0, 20),
    maximum=st.integers(1, 8),
    running=st.integers(0, 10),
    queue=st.integers(0, 12),
    strategy=st.sampled_from(["default", "accurate", "eager"]),
)
def test_a_fallback_never_goes_beyond_the_maximum(replicas, maximum, running, queue, strategy):
    fallback = {"replicas": replicas, "failureThreshold": 0}
    samples = [failing(1), sample(queue, name="s1")]
    spec = {"maxReplicaCount": maximum, "scalingStrategy": {"strategy": strategy}}
    more = made(fallback, *(child(f"work-z-{i}") for i in range(running)), samples=samples, **spec)
    assert running + more <= max(maximum, running)


@pytest.mark.parametrize(
    ("fallback", "field"),
    [
        ({"failureThreshold": 1}, "replicas is required"),
        ({"behavior": "fixed"}, "replicas is required"),
        ({"behavior": "panic", "replicas": 1}, "spec.fallback.behavior"),
        ({"replicas": -1}, "spec.fallback.replicas"),
    ],
    ids=["no replicas", "fixed without replicas", "an unknown behavior", "a negative number"],
)
def test_a_wrong_fallback_is_refused(fallback, field):
    with pytest.raises(UserError, match=field):
        scaledjob.parse(scaled_job(fallback=fallback))
