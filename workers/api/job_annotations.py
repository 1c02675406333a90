"""Annotations and the label of Jobs that claims and events make: controllers write them, spans are read from them."""

#: The claim's id, and the number of its attempt, from 0.
CLAIM = "penstock.dev/claim"
CLAIM_ATTEMPT = "penstock.dev/claim-attempt"
#: The item that was claimed, and its encoding (`ClaimedItem.encoding`).
ITEM = "penstock.dev/item"
ITEM_ENCODING = "penstock.dev/item-encoding"
#: Label: the EventJob of a Job and of its pods.
EVENT_JOB = "penstock.dev/eventjob"
#: The event without large data, as JSON, and its data where they fit.
EVENT = "penstock.dev/event"
EVENT_DATA = "penstock.dev/event-data"
#: The traceparent of the event.
TRACEPARENT = "penstock.dev/traceparent"
#: When a Job whose event is traced was sent to the API server (µs since the epoch).
TRACED_FROM = "penstock.dev/traced-from"
