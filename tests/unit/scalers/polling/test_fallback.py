"""What is remembered of triggers that fail: counted up to the threshold, with the last value that was measured."""

import pytest

from scalers.polling import failure_counts
from scalers.polling.circuit_breaker import CircuitBreaker
from workers.decision.snapshot import Reading, TriggerSample

GOOD = TriggerSample("s0", "redis", 6.0, 4.0, True)
BAD = TriggerSample("s0", "redis", error="no route")


def body(**given):
    return {"spec": {"fallback": given} if given else {}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (body(), None),
        (body(replicas=1), 3),
        (body(failureThreshold=0), 0),
        ({"spec": {"fallback": "x"}}, None),
        ({}, None),
    ],
    ids=["no fallback", "none named", "zero", "no object", "no spec"],
)
def test_threshold(given, expected):
    assert failure_counts.threshold(given) == expected


@pytest.mark.parametrize(
    ("before", "limit", "failures", "last"),
    [
        ((GOOD,), None, 0, None),
        (None, 2, 1, None),
        ((GOOD,), 2, 1, 1.5),
        ((TriggerSample("s0", "redis", 6.0, 4.0, False),), 2, 1, 0.0),
        ((TriggerSample("s0", "redis", 6.0, 0.0, True),), 2, 1, 0.0),
        ((TriggerSample("s0", "redis", error="x", failures=2, last=1.5),), 2, 3, 1.5),
        ((TriggerSample("s0", "redis", error="x", failures=3, last=1.5),), 2, 3, 1.5),
        ((TriggerSample("s0", "redis", error="x", failures=9, last=None),), 0, 1, None),
        ((TriggerSample("s1", "redis", 6.0, 4.0, True),), 2, 1, None),
    ],
    ids=[
        "without a fallback nothing is counted",
        "the first poll of all",
        "it worked before",
        "it was not active",
        "a target of zero asks for nothing",
        "one more",
        "no further than one beyond the threshold",
        "a threshold that became smaller",
        "another trigger",
    ],
)
def test_what_is_remembered(before, limit, failures, last):
    previous = Reading(1, 1, 1, before) if before else None
    known = failure_counts.counted(BAD, previous, limit)
    assert (known.error, known.failures, known.last) == ("no route", failures, last)


@pytest.mark.parametrize(
    ("before", "breaker", "expected"),
    [
        (None, None, ("", 0, 0)),
        (GOOD, CircuitBreaker(3, 900, "x"), ("s", 500, 900)),
        (
            TriggerSample("s0", "redis", error="x", source="s", alone_since=300, next_attempt=400),
            CircuitBreaker(5, 900),
            ("s", 300, 900),
        ),
        (TriggerSample("s0", "redis", error="x", source="s", alone_since=300, next_attempt=400), None, ("s", 300, 400)),
        (GOOD, None, ("", 0, 0)),
    ],
    ids=[
        "it just fails",
        "its breaker opened",
        "it is still open",
        "it is open in another process",
        "it worked before",
    ],
)
def test_a_server_that_is_left_alone(before, breaker, expected):
    previous = Reading(1, 1, 1, (before,)) if before else None
    known = failure_counts.with_breaker(BAD, previous, breaker, "s", 500)
    assert (known.source, known.alone_since, known.next_attempt) == expected
