"""The flags that enable KEDA 2.20's behavior where Penstock's differs; docs/beyond-keda.md has the others.

``python -m workers.api.keda_compat`` prints the flags as the table of that page.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: Flags of PENSTOCK_KEDA_QUIRKS. Each is a row of FLAGS.
Quirk = Literal[
    "poll-counting",
    "last-active-time",
    "requested-jobs-event",
    "ready-pods-only",
    "whole-fallback-targets",
    "zero-fallback-activates",
    "bare-user-names",
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


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. of: the kind that shows it."""

    of: str
    keda: str
    penstock: str


FLAGS: Mapping[Quirk, Difference] = {
    "poll-counting": Difference(
        "ScaledJob",
        "each poll makes Jobs once, from the Jobs that existed when it began",
        "`default` and `accurate` create the Jobs that a reading still justifies: completed Jobs are replaced at once,"
        " and a fresh poll is made where only that shows remaining work ([how counting is made exact](scaledjob.md))",
    ),
    "last-active-time": Difference(
        "ScaledJob",
        "`lastActiveTime` is written in every active poll",
        "rewritten when it is a polling interval old",
    ),
    "requested-jobs-event": Difference(
        "ScaledJob",
        "the Event `KEDAJobsCreated` has the number of Jobs that were wanted, also if the API server refused them all",
        "it has the number that was created, and is left out if there is none",
    ),
    "ready-pods-only": Difference(
        "ScaledObject",
        "a metric of type Value is multiplied with the ready pods alone, so that one above its target may remove"
        " replicas whose pods are not ready yet, and one below it add some",
        "it never changes replicas against its own direction",
    ),
    "whole-fallback-targets": Difference(
        "ScaledObject",
        "`fallback` has no effect where `scalingModifiers.target` is not a whole number",
        "it has",
    ),
    "zero-fallback-activates": Difference(
        "ScaledObject",
        "a fallback of 0 replicas counts as an active trigger, and so makes the first replica",
        "it activates nothing",
    ),
    "bare-user-names": Difference(
        "ClusterTriggerAuthentication",
        "the lists of users in its status have names without namespaces, which may repeat",
        "`namespace/name`",
    ),
    "unknown-parameters": Difference(
        "triggers",
        "metadata that are no parameter of their trigger are ignored",
        "they are rejected, with the parameter that may be meant (`metricName`, which KEDA read once, is ignored)",
    ),
    "unset-variables": Difference(
        "triggers",
        "`passwordFromEnv` and its like count as absent when the container does not set the variable: it is measured"
        " without a password",
        "it is refused, with the parameter and the variable. A variable that refers to an `optional` key of a ConfigMap"
        " or Secret may be missing",
    ),
    "missing-secrets": Difference(
        "triggers",
        "a Secret, ConfigMap, key, variable or authentication that does not exist supplies an empty text",
        "the condition names what is missing, and nothing is measured"
        " ([why](authentication.md#a-missing-source-is-an-error))",
    ),
    "ignored-trust": Difference(
        "triggers",
        "certificates, options and texts of an authentication about TLS that have no effect are ignored",
        "they are refused by name",
    ),
    "partial-aggregation": Difference(
        "triggers",
        "`metrics-api` leaves endpoints that fail out of the aggregated value",
        "one that fails makes the value unknown",
    ),
    "cron-next-ticks": Difference(
        "triggers",
        "a `cron` window is open if its end fires before its next start, also across a change of the clock",
        "it is open from a start to the end after it; a start or end that the change skips comes that much later",
    ),
    "integer-average": Difference(
        "triggers",
        "`rabbitmq` with `operation: avg` divides whole numbers of messages without a remainder",
        "the average has its fraction",
    ),
}


def render() -> str:
    """Returns the flags as a Markdown table."""
    rows = ((f"`{name}`", each.of, each.keda, each.penstock) for name, each in FLAGS.items())
    head = ("name", "of", "KEDA", "Penstock otherwise")
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    sys.stdout.write(render())
