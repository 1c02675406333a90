"""The span of a push: it begins a trace or continues that of the event."""

from collections.abc import Iterable

from workers.tracing import trace_context
from workers.tracing.event_spans import LINKS, EventSpan
from workers.tracing.push_tracing import PushTracing

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Sink:
    def __init__(self) -> None:
        self.spans: list[EventSpan] = []

    def export(self, spans: Iterable[EventSpan]) -> None:
        self.spans += spans

    def close(self) -> None:
        pass


def event(id_: str, **more: str) -> dict[str, str]:
    return {"id": id_, "source": "/s", "type": "t", **more}


def pushed(*events: dict[str, str], duplicates: tuple[bool, ...] = ()) -> tuple[list[dict[str, str]], list[EventSpan]]:
    sink = Sink()
    tracing = PushTracing(sink)
    begun = tracing.begun(events)
    tracing.ended("/events/default/orders", events, begun, duplicates or (False,) * len(events), 5, 9)
    return [dict(each) for each in begun], sink.spans


def test_a_push_continues_the_trace_of_its_event() -> None:
    (begun,), (span,) = pushed(event("1", traceparent=PARENT, tracestate="a=b"))
    assert span.parent == trace_context.parse(PARENT)
    assert span.context.trace_id == span.parent.trace_id
    assert begun == {**event("1"), "traceparent": span.context.text, "tracestate": "a=b"}
    assert (span.name, span.start, span.end, span.role) == ("push", 5, 9, "server")
    assert dict(span.attributes)["cloudevents.event_id"] == "1"


def test_a_push_without_a_trace_begins_one() -> None:
    begun, spans = pushed(event("1"), event("2", traceparent="nonsense"))
    assert [span.parent for span in spans] == [None, None]
    assert len({span.context.trace_id for span in spans}) == 2
    assert [each["traceparent"] for each in begun] == [span.context.text for span in spans]


def test_pushing_an_event_again_is_another_span() -> None:
    (one,), _ = pushed(event("1", traceparent=PARENT))
    (other,), _ = pushed(event("1", traceparent=PARENT))
    assert one["traceparent"] != other["traceparent"]


def test_the_events_of_a_batch_are_linked() -> None:
    _, spans = pushed(*(event(str(number)) for number in range(3)))
    for span in spans:
        assert set(span.links) == {other.context for other in spans} - {span.context}
    _, many = pushed(*(event(str(number)) for number in range(100)))
    assert max(len(span.links) for span in many) == LINKS


def test_a_duplicate_goes_no_further() -> None:
    _, spans = pushed(event("1"), event("2"), duplicates=(True, False))
    assert [dict(span.attributes)["cloudevents.event_id"] for span in spans] == ["2"]


def test_an_event_that_is_not_sampled_stays_so() -> None:
    (begun,), spans = pushed(event("1", traceparent=PARENT[:-1] + "0"))
    assert begun["traceparent"].endswith("-00")
    assert spans == []


def test_events_stay_as_they_are_where_tracing_is_off() -> None:
    tracing = PushTracing()
    events = [event("1"), event("2", traceparent=PARENT)]
    assert tracing.begun(events) == events
    tracing.ended("/events/default/orders", events, events, (False, False), 5, 9)
