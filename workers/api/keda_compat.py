"""Compatibility flags: KEDA's behavior where Penstock's differs, enabled by name for all ScaledJobs."""

from typing import Literal

#: poll-counting: `default` and `accurate` create Jobs once per poll, count the Jobs that existed when the poll began,
#: and ignore those that ended since. last-active-time: `lastActiveTime` is rewritten with every active decision.
#: unknown-parameters: unknown metadata of a trigger are ignored instead of rejected.
#: unset-variables: a parameter from a variable that the container does not set counts as absent instead of rejected.
#: missing-secrets: a Secret, ConfigMap, key, variable or authentication that does not exist supplies an empty text.
#: ignored-trust: certificates, options and texts of an authentication about TLS that have no effect are ignored.
#: partial-aggregation: `metrics-api` leaves endpoints that fail out of the aggregated value.
#: cron-next-ticks: a `cron` window is open if its end fires before its next start, also of schedules that never fire.
#: integer-average: `rabbitmq` with `operation: avg` divides whole numbers of messages without a remainder.
Quirk = Literal[
    "poll-counting",
    "last-active-time",
    "unknown-parameters",
    "unset-variables",
    "missing-secrets",
    "ignored-trust",
    "partial-aggregation",
    "cron-next-ticks",
    "integer-average",
]
Quirks = frozenset[Quirk]

NONE: Quirks = frozenset()
