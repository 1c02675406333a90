"""Traces of events: spans as plain values, calculated from events, decisions and Jobs, and their export on demand.

It knows neither controllers nor clients. Only `span_export` imports OpenTelemetry, and only where tracing is on.
"""
