"""The export of spans by OTLP over HTTP, with OpenTelemetry's SDK and its variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, …).

The SDK is imported when tracing is on, and never otherwise.
"""

import logging
from collections.abc import Iterable
from typing import Any, Protocol

from penstock import __version__, extras
from workers.settings import Settings
from workers.tracing.event_spans import EventSpan
from workers.tracing.trace_context import TraceContext

log = logging.getLogger(__name__)


class SpanSink(Protocol):
    """Takes spans and exports them later; never blocks and never raises."""

    def export(self, spans: Iterable[EventSpan]) -> None:
        """Takes these spans."""

    def close(self) -> None:
        """Exports what is left. May take some seconds while the collector is away."""


def opened(settings: Settings) -> SpanSink | None:
    """Returns the export of a process, None where tracing is off. Raises UserError if its library is missing."""
    return OtlpSink() if settings.tracing else None


class OtlpSink:
    """Exports spans in batches on a thread of the SDK. A collector that is away costs spans, never work."""

    def __init__(self) -> None:
        exporter = extras.needed("opentelemetry.exporter.otlp.proto.http.trace_exporter", "tracing")
        self._sdk = extras.needed("opentelemetry.sdk.trace", "tracing")
        self._api = extras.needed("opentelemetry.trace", "tracing")
        batches = extras.needed("opentelemetry.sdk.trace.export", "tracing")
        resources = extras.needed("opentelemetry.sdk.resources", "tracing")
        scopes = extras.needed("opentelemetry.sdk.util.instrumentation", "tracing")
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over these.
        named = resources.Resource({"service.name": "penstock", "service.version": __version__})
        self._resource = named.merge(resources.OTELResourceDetector().detect())
        self._scope = scopes.InstrumentationScope("penstock", __version__)
        self._batches = batches.BatchSpanProcessor(exporter.OTLPSpanExporter())

    def export(self, spans: Iterable[EventSpan]) -> None:
        for span in spans:
            try:
                self._batches.on_end(self._readable(span))
            except Exception:
                log.exception("a span was not exported", extra={"span": span.name})

    def close(self) -> None:
        self._batches.shutdown()

    def _readable(self, span: EventSpan) -> Any:
        status = self._api.StatusCode.ERROR if span.error else self._api.StatusCode.UNSET
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.context),
            parent=self._context(span.parent, remote=True) if span.parent else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            links=tuple(self._api.Link(self._context(each, remote=True)) for each in span.links),
            kind=self._api.SpanKind[span.role.upper()],
            status=self._api.Status(status, span.error or None),
            start_time=span.start * 1000,
            end_time=span.end * 1000,
            instrumentation_scope=self._scope,
        )

    def _context(self, context: TraceContext, *, remote: bool = False) -> Any:
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED if context.sampled else 0)
        return self._api.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), remote, flags)
