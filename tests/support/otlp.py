"""A collector of traces for tests: it takes OTLP over HTTP as protobuf and remembers the spans."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class CollectedSpan:
    """One span as it arrived. start, end: ns since the epoch."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    service: str
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    error: str
    kind: int


@dataclass
class Collector:
    """The collector at `url`."""

    url: str
    spans: list[CollectedSpan] = field(default_factory=list)
    requests: int = 0

    def trace(self, trace_id: str) -> dict[str, CollectedSpan]:
        """Returns the spans of one trace by name; of a span that was exported twice the last."""
        return {span.name: span for span in list(self.spans) if span.trace_id == trace_id}

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.requests += 1
        for resource in request.resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(_span(span, service))


def _span(span: Any, service: str) -> CollectedSpan:
    return CollectedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        service=service,
        attributes={each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes},
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        error=span.status.message if span.status.code == 2 else "",
        kind=span.kind,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    """A running collector on a free port of this machine."""
    found = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces", self.path
            found.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
