"""Traces of events: spans as plain values, calculated from events, decisions and Jobs, and their export on demand.

`workers` and `scalers` may import it; only `span_export` imports OpenTelemetry, and only where tracing is on.
"""
