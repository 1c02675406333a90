"""What is remembered of triggers that fail: counted up to the threshold, with the last value that was measured."""

from dataclasses import replace

from scalers.polling import failure_counts
from scalers.polling.circuit_breaker import CircuitBreaker
from tests.support.tables import cases
from workers.decision.snapshot import Reading, TriggerSample

GOOD = TriggerSample("s0", "redis", 6.0, 4.0, True)
BAD = TriggerSample("s0", "redis", error="no route")


def body(**given):
    return {"spec": {"fallback": given} if given else {}}


@cases(
    ("no fallback", body(), None),
    ("none named", body(replicas=1), 3),
    ("zero", body(failureThreshold=0), 0),
    ("no object", {"spec": {"fallback": "x"}}, None),
    ("no spec", {}, None),
)
def test_threshold(given, expected):
    assert failure_counts.threshold(given) == expected


def failing(failures, last):
    return TriggerSample("s0", "redis", error="x", failures=failures, last=last)


@cases(
    ("without a fallback nothing is counted", GOOD, None, 0, None),
    ("the first poll of all", None, 2, 1, None),
    ("it worked before", GOOD, 2, 1, 1.5),
    ("it was not active", replace(GOOD, active=False), 2, 1, 0.0),
    ("a target of zero asks for nothing", replace(GOOD, target=0.0), 2, 1, 0.0),
    ("one more", failing(2, 1.5), 2, 3, 1.5),
    ("no further than one beyond the threshold", failing(3, 1.5), 2, 3, 1.5),
    ("a threshold that became smaller", failing(9, None), 0, 1, None),
    ("another trigger", replace(GOOD, name="s1"), 2, 1, None),
)
def test_what_is_remembered(before, limit, failures, last):
    previous = Reading(1, 1, 1, (before,)) if before else None
    known = failure_counts.counted(BAD, previous, limit)
    assert (known.error, known.failures, known.last) == ("no route", failures, last)


OPEN = TriggerSample("s0", "redis", error="x", source="s", alone_since=300, next_attempt=400)


@cases(
    ("it just fails", None, None, ("", 0, 0)),
    ("its breaker opened", GOOD, CircuitBreaker(3, 900, "x"), ("s", 500, 900)),
    ("it is still open", OPEN, CircuitBreaker(5, 900), ("s", 300, 900)),
    ("it is open in another process", OPEN, None, ("s", 300, 400)),
    ("it worked before", GOOD, None, ("", 0, 0)),
)
def test_a_server_that_is_left_alone(before, breaker, expected):
    previous = Reading(1, 1, 1, (before,)) if before else None
    known = failure_counts.with_breaker(BAD, previous, breaker, "s", 500)
    assert (known.source, known.alone_since, known.next_attempt) == expected
