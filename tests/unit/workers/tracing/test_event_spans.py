"""The spans of an event's way, from the Job that was created for it."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import for_each
from workers.api import job_annotations
from workers.api.kinds import SCALED_JOB, Object, Ref
from workers.tracing import event_spans, trace_context
from workers.tracing.event_spans import CreationMoments, EventSpan

OWNER = Ref(SCALED_JOB, "default", "work")
PUSH = trace_context.parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
OTHER = trace_context.parse("00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01")
assert PUSH
assert OTHER
#: 2026-03-01T08:00:00Z, in µs.
EIGHT = 1_772_352_000_000_000


def job(push: trace_context.TraceContext | None = PUSH, claim: str = "1772352000000-0", **more: Any) -> Object:
    annotations = {
        job_annotations.CLAIM: claim,
        job_annotations.CLAIM_ATTEMPT: more.pop("attempt", "0"),
        **more.pop("noted", {}),
    }
    if push:
        annotations[job_annotations.TRACEPARENT] = push.text
    metadata = {"name": "work-1", "namespace": "default", "uid": "u1", "annotations": annotations}
    return {"metadata": {**metadata, "creationTimestamp": "2026-03-01T08:00:01Z"}, **more}


def ended(type_: str = "Complete", reason: str = "", **status: Any) -> Object:
    condition = {"type": type_, "status": "True", "lastTransitionTime": "2026-03-01T08:00:09Z", "reason": reason}
    return {"status": {"conditions": [condition], "startTime": "2026-03-01T08:00:02Z", **status}}


def pod(started: str, finished: str) -> Object:
    state = {"terminated": {"startedAt": f"2026-03-01T08:00:{started}Z", "finishedAt": f"2026-03-01T08:00:{finished}Z"}}
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"state": state}]}}


def lengths(spans: list[EventSpan]) -> dict[str, tuple[float, float]]:
    """By name, begin and end in seconds after eight."""
    return {span.name: ((span.start - EIGHT) / 1e6, (span.end - EIGHT) / 1e6) for span in spans}


def moments(*after: float) -> CreationMoments:
    return CreationMoments(*(EIGHT + int(each * 1e6) for each in after))


def test_an_event_waits_for_its_poll_and_its_decision() -> None:
    spans = event_spans.of_creation(OWNER, job(), moments(0.5, 0.6, 0.7, 0.8))
    assert lengths(spans) == {"route": (0, 0.5), "decide": (0.5, 0.6), "create Job": (0.7, 0.8)}
    assert {span.parent for span in spans} == {PUSH}
    assert len({span.context.span_id for span in spans} | {PUSH.span_id}) == 4
    assert dict(spans[0].attributes) == {
        "k8s.namespace.name": "default",
        "k8s.job.name": "work-1",
        "penstock.owner.kind": "ScaledJob",
        "penstock.owner.name": "work",
        "penstock.claim": "1772352000000-0",
        "penstock.attempt": 0,
    }


def test_the_decision_is_linked_with_the_other_events_it_decided_on() -> None:
    others = [job(), job(OTHER), job(None), job(OTHER)]
    spans = {span.name: span for span in event_spans.of_creation(OWNER, job(), moments(1, 1, 1, 1), others)}
    assert spans["decide"].links == (OTHER,)
    assert spans["create Job"].links == ()


def test_links_are_bounded() -> None:
    others = [job(OTHER.derived(number)) for number in range(100)]
    spans = {span.name: span for span in event_spans.of_creation(OWNER, job(), moments(1, 1, 1, 1), others)}
    assert len(spans["decide"].links) == event_spans.LINKS


def test_a_further_attempt_is_not_routed_again() -> None:
    spans = event_spans.of_creation(OWNER, job(attempt="1"), moments(1, 2, 3, 4))
    assert [span.name for span in spans] == ["decide", "create Job"]
    first = event_spans.of_creation(OWNER, job(), moments(1, 2, 3, 4))
    assert not {span.context for span in spans} & {span.context for span in first}


def test_the_item_of_a_list_has_no_arrival() -> None:
    spans = event_spans.of_creation(OWNER, job(claim="1772352000000"), moments(1, 2, 3, 4))
    assert [span.name for span in spans] == ["decide", "create Job"]


def test_two_workers_give_one_span_one_id() -> None:
    one = event_spans.of_creation(OWNER, job(), moments(1, 2, 3, 4))
    other = event_spans.of_creation(OWNER, job(), moments(2, 3, 4, 5))
    assert [span.context for span in one] == [span.context for span in other]


ENDS: dict[str, tuple[Object, list[Object], dict[str, tuple[float, float]], str]] = {
    "the pods tell when their containers ran": (
        job(**ended()),
        [pod("03", "05"), pod("04", "08")],
        {"wait": (1, 3), "run": (3, 8)},
        "",
    ),
    "without pods the Job's own times": (job(**ended()), [], {"wait": (1, 2), "run": (2, 9)}, ""),
    "the stamp of the creation is more exact than the API server's second": (
        job(noted={job_annotations.TRACED_FROM: str(EIGHT + 1_700_000)}, **ended()),
        [pod("03", "05")],
        {"wait": (1.7, 3), "run": (3, 5)},
        "",
    ),
    "a container that began in the same second as its Job did not begin before it": (
        job(noted={job_annotations.TRACED_FROM: str(EIGHT + 3_700_000)}, **ended()),
        [pod("03", "03")],
        {"wait": (3.7, 3.7), "run": (3.7, 3.7)},
        "",
    ),
    "a Job that failed": (
        job(**ended("Failed", "BackoffLimitExceeded")),
        [pod("03", "05")],
        {"wait": (1, 3), "run": (3, 5)},
        "BackoffLimitExceeded",
    ),
    "a Job that was deleted while it ran": (
        job(status={"startTime": "2026-03-01T08:00:02Z"}),
        [pod("03", "05")],
        {"wait": (1, 3), "run": (3, 5)},
        "the Job was deleted before it ended",
    ),
    "a Job of which no end is known": (job(), [], {}, ""),
    "a Job without a trace": (job(None, **ended()), [], {}, ""),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_job(case: str) -> None:
    body, pods, expected, error = ENDS[case]
    spans = event_spans.of_end(OWNER, body, pods)
    assert lengths(spans) == expected
    assert [span.error for span in spans] == (["", error] if expected else [])


def test_events_that_are_not_sampled_have_no_spans() -> None:
    quiet = trace_context.parse(PUSH.text[:-1] + "0")
    assert event_spans.of_creation(OWNER, job(quiet), moments(1, 2, 3, 4)) == []
    assert event_spans.of_end(OWNER, job(quiet, **ended())) == []


SECONDS = st.integers(0, 59).map(lambda number: f"{number:02}")


@given(st.tuples(*[st.integers(-(10**9), 10**9)] * 4), st.lists(st.tuples(SECONDS, SECONDS), max_size=3), st.booleans())
def test_times_are_in_order_whatever_the_clocks_say(
    clocks: tuple[int, int, int, int], ran: list[tuple[str, str]], stamped: bool
) -> None:
    """Clocks of several machines may differ by minutes; a span never ends before it begins, or before its causes."""
    stamp = {job_annotations.TRACED_FROM: str(EIGHT + clocks[2])} if stamped else {}
    body = job(noted=stamp, **ended())
    before = event_spans.of_creation(OWNER, body, CreationMoments(*(EIGHT + each for each in clocks)))
    after = event_spans.of_end(OWNER, body, [pod(*each) for each in ran])
    for spans in (before, after):
        for span in spans:
            assert span.start <= span.end
        for one, other in pairwise(spans):
            assert one.start <= other.start


def test_malformed_times_are_unknown() -> None:
    broken = job(status={"conditions": [], "startTime": "yesterday", "completionTime": 7})
    assert event_spans.of_end(OWNER, broken, [{"status": {"containerStatuses": [{"state": {"running": {}}}]}}]) == []


@for_each(("1-0", 1000), ("1", None), ("", None), ("a-0", None), ("1-b", None))
def test_the_arrival_of_a_claim(claim: str, expected: int | None) -> None:
    assert event_spans.arrived(claim) == expected
