"""Spans on their way to a collector, and nothing of it where tracing is off."""

import subprocess
import sys

import pytest

from penstock.errors import UserError
from tests.support.otlp import collector
from tests.support.paths import ROOT
from workers.settings import Settings
from workers.tracing import span_export, trace_context
from workers.tracing.event_spans import EventSpan

PUSH = trace_context.parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
assert PUSH
OTHER = PUSH.derived("other")
#: The Redis client imports OpenTelemetry's metrics by itself, where they are installed.
SDK = ("opentelemetry.exporter", "opentelemetry.sdk.trace")


def test_a_span_arrives_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
        sink = span_export.opened(Settings(tracing=True))
        assert sink
        more = {"attributes": (("penstock.attempt", 2), ("a", "b")), "links": (OTHER,), "error": "it failed"}
        sink.export([EventSpan("run", PUSH.derived("run"), PUSH, 1_000, 2_000, "consumer", **more)])
        sink.close()
    (span,) = found.spans
    assert (span.name, span.trace_id, span.parent_id) == ("run", PUSH.trace_id, PUSH.span_id)
    assert span.span_id == PUSH.derived("run").span_id
    assert (span.start, span.end, span.service) == (1_000_000, 2_000_000, "orders")
    assert span.attributes == {"penstock.attempt": 2, "a": "b"}
    assert span.links == ((PUSH.trace_id, OTHER.span_id),)
    assert (span.error, span.kind) == ("it failed", 5)


def test_a_span_that_cannot_be_exported_is_logged_and_the_next_one_is_exported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        sink = span_export.opened(Settings(tracing=True))
        assert sink
        broken = EventSpan("broken", trace_context.TraceContext("no hexadecimal", "x"), None, 0, 0)
        sink.export([broken, EventSpan("whole", PUSH, None, 0, 0)])
        sink.close()
    assert [span.name for span in found.spans] == ["whole"]
    assert "a span was not exported" in caplog.text


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(UserError, match=r"pip install 'penstock\[tracing\]'"):
        span_export.opened(Settings(tracing=True))


def test_where_tracing_is_off_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, workers.reconcile.reconcile_worker, scalers.polling.poll_worker\n"
        "from workers.settings import Settings\nfrom workers.tracing import span_export\n"
        "assert span_export.opened(Settings()) is None\n"
        f"print([name for name in sys.modules if name.startswith({SDK!r})])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
