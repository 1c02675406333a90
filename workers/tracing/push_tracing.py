"""The first span of an event: its push over HTTP, which the spans of its further way are children of."""

import os
from collections.abc import Callable, Mapping, Sequence

from workers.tracing import trace_context
from workers.tracing.event_spans import LINKS, EventSpan
from workers.tracing.span_export import SpanSink
from workers.tracing.trace_context import ATTRIBUTE, TraceContext

PushedEvent = Mapping[str, str]


class PushTracing:
    """Begins or continues a trace with every event that is pushed.

    sink: None where tracing is off; events then stay as they are. random: returns so many random bytes.
    """

    def __init__(self, sink: SpanSink | None = None, random: Callable[[int], bytes] = os.urandom) -> None:
        self._sink = sink
        self._random = random

    @property
    def is_on(self) -> bool:
        """True if spans are exported."""
        return self._sink is not None

    def begun(self, events: Sequence[PushedEvent]) -> list[PushedEvent]:
        """Returns the events with the `traceparent` of their push; one without a valid one begins a trace."""
        if self._sink is None:
            return list(events)
        return [{**event, ATTRIBUTE: self._context(event).text} for event in events]

    def ended(
        self,
        target: str,
        given: Sequence[PushedEvent],
        begun: Sequence[PushedEvent],
        duplicates: Sequence[bool],
        start: int,
        end: int,
    ) -> None:
        """Exports the spans of one request; none for duplicates, which go no further.

        target: the path it was pushed to. given, begun: the argument and the answer of `begun`. start, end: µs since
        the epoch. The events of one batch are linked with each other.
        """
        if self._sink is None:
            return
        spans = []
        contexts = [trace_context.parse(event[ATTRIBUTE]) for event in begun]
        for before, event, context, duplicate in zip(given, begun, contexts, duplicates, strict=True):
            if context is None or duplicate or not context.sampled:
                continue
            others = [other for other in contexts[: LINKS + 1] if other is not None and other != context]
            about = (
                ("url.path", target),
                ("cloudevents.event_id", event["id"]),
                ("cloudevents.event_type", event["type"]),
            )
            parent = trace_context.parse(before.get(ATTRIBUTE))
            spans.append(
                EventSpan("push", context, parent, start, max(start, end), "server", about, tuple(others[:LINKS]))
            )
        self._sink.export(spans)

    def _context(self, event: PushedEvent) -> TraceContext:
        entropy = self._random(24)
        given = trace_context.parse(event.get(ATTRIBUTE))
        return trace_context.root(entropy) if given is None else given.derived("push", entropy.hex())
