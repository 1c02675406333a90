"""A ScaledJob's fallback: what is kept alive while triggers fail, from which poll on, and what is told of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, child, gone, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import condition, created, events, status_of, verdict
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


@cases(
    ("no fallback: unknown makes nothing", None, [failing(0)], {}, 0),
    ("as many failures as are allowed", FIXED, [failing(2)], {}, 0),
    ("one more", FIXED, [failing(3)], {}, 3),
    ("three are allowed when nothing is said", {"replicas": 2}, [failing(3)], {}, 0),
    ("and the fourth is too many", {"replicas": 2}, [failing(4)], {}, 2),
    ("from the first poll on", {"replicas": 2, "failureThreshold": 0}, [failing(1)], {}, 2),
    ("behavior none", {**FIXED, "behavior": "none"}, [failing(3)], {}, 0),
    ("never more than the maximum", {**FIXED, "replicas": 50}, [failing(3)], {"maxReplicaCount": 4}, 4),
    ("on top of the minimum", FIXED, [failing(3)], {"minReplicaCount": 2, "maxReplicaCount": 10}, 5),
    ("whatever the strategy: accurate", FIXED, [failing(3)], {"scalingStrategy": {"strategy": "accurate"}}, 3),
    ("whatever the strategy: eager", FIXED, [failing(3)], {"scalingStrategy": {"strategy": "eager"}}, 3),
    ("a trigger that works asks for more", FIXED, [failing(3), sample(5, name="s1")], {}, 5),
    ("a trigger that works asks for less", FIXED, [failing(3), sample(1, name="s1")], {}, 3),
    ("hold keeps what was asked for last", HOLD, [failing(3, last=2.5)], {}, 3),
    ("hold without a last value keeps nothing", HOLD, [failing(3)], {}, 0),
    ("hold takes the larger of two", HOLD, [failing(3, last=2), failing(3, last=4, name="s1")], {}, 4),
    ("hold under the maximum", HOLD, [failing(3, last=200)], {"maxReplicaCount": 7}, 7),
)
def test_what_a_fallback_makes(fallback, samples, spec, expected):
    assert made(fallback, samples=samples, **spec) == expected


@cases(
    ("Jobs alive count", [child("work-z-0"), child("work-z-1")], 1),
    ("Jobs that ended before the reading are replaced", [child("work-z-0", "Complete"), gone("work-z-1")], 3),
    ("Jobs that ended since wait for the next one", [child("work-z-0", "Failed", seen=0)], 2),
    (
        "the same reading again makes no more",
        [child("work-10-0"), child("work-10-1"), child("work-10-2", "Complete", seen=0)],
        0,
    ),
    ("more than enough", [child(f"work-z-{i}") for i in range(9)], 0),
)
def test_a_fallback_replaces_jobs_once_per_reading(children, expected):
    assert made(FIXED, *children, samples=[failing(3)]) == expected


def told(fallback, before=None, **of):
    body = scaled_job(**({"fallback": fallback} if fallback else {}), **({"status": before} if before else {}))
    plan = decide(snapshot(body, **of), NOW)
    return *verdict(plan, "Fallback"), condition(plan, "Fallback").get("message", ""), plan


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
    assert told(None, status_of(begun[3]), reading=reading(failing(3), id=37))[:2] == ("Unknown", None), (
        "none is asked for"
    )


def test_with_nothing_to_hold_the_condition_says_so():
    assert "nothing to hold: s0-redis-work" in told(HOLD, reading=reading(failing(3)))[2]


def test_without_a_fallback_the_condition_stays_as_keda_writes_it():
    assert told(None, reading=reading(failing(0)))[:2] == ("Unknown", None)


def test_a_fallback_is_active():
    plan = told(FIXED, reading=reading(failing(3)))[3]
    assert (verdict(plan, "Active")[0], verdict(plan, "Ready")[0]) == ("True", "Unknown")


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


@cases(
    ("no replicas", {"failureThreshold": 1}, "replicas: is required"),
    ("fixed without replicas", {"behavior": "fixed"}, "replicas: is required"),
    ("an unknown behavior", {"behavior": "panic", "replicas": 1}, "spec.fallback.behavior"),
    ("a negative number", {"replicas": -1}, "spec.fallback.replicas"),
)
def test_a_wrong_fallback_is_refused(fallback, field):
    with pytest.raises(UserError, match=field):
        scaledjob.parse(scaled_job(fallback=fallback))
