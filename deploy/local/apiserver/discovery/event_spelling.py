"""The two spellings of an Event: core/v1, in which events are stored, and events.k8s.io/v1."""

from workers.api.kinds import Object

#: events.k8s.io/v1 spelling -> core/v1 spelling, where they differ.
SPELLING = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_REVERSED = {core: new for new, core in SPELLING.items()}


def to_core(body: Object) -> Object:
    """The core/v1 form of an events.k8s.io/v1 event."""
    return {SPELLING.get(name, name): value for name, value in body.items()}


def from_core(body: Object) -> Object:
    """The events.k8s.io/v1 form of a core/v1 event."""
    return {_REVERSED.get(name, name): value for name, value in body.items()}
