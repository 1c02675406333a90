"""Every deliberate difference from KEDA 2.20: flags that enable KEDA's behavior, and differences without one.

``python -m workers.api.keda_compat`` prints both tables as docs/beyond-keda.md has them.
"""

import sys
from collections.abc import Iterable, Mapping
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
    """One difference. of: the kind that shows it. why: the reason that no flag enables KEDA's way, if none does."""

    of: str
    keda: str
    penstock: str
    why: str = ""


FLAGS: Mapping[Quirk, Difference] = {
    "poll-counting": Difference(
        "ScaledJob",
        "each poll makes Jobs once, from the Jobs that existed when it began",
        "`default` and `accurate` create the Jobs that a reading still justifies: finished Jobs are replaced at once,"
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
        "it is open from a start to the end after it",
    ),
    "integer-average": Difference(
        "triggers",
        "`rabbitmq` with `operation: avg` divides whole numbers of messages without a remainder",
        "the average has its fraction",
    ),
}

_UNKNOWN = "a failure taken for zero creates or removes work that nothing justifies"
_BOUNDS = "no flag exceeds the bounds of a manifest"
_NO_AUTOSCALER = "there is no HorizontalPodAutoscaler"

WITHOUT_FLAG: tuple[Difference, ...] = (
    Difference(
        "ScaledJob", "Jobs that cannot be listed count as none", "nothing is created until they are known", _UNKNOWN
    ),
    Difference(
        "ScaledJob", "a trigger that fails is inactive in `triggersActivity`", "its last activity stays", _UNKNOWN
    ),
    Difference(
        "ScaledJob",
        "`custom` caps the new Jobs alone, and a minimum above the maximum doubles it",
        "`maxReplicaCount` limits the unfinished Jobs with every strategy",
        _BOUNDS,
    ),
    Difference(
        "ScaledJob",
        "a Job that the API server refuses is tried again at the next poll, and Ready stays True",
        "Ready is False with the API server's message, and the next attempt comes with backoff",
        "the condition is where a user looks for the reason",
    ),
    Difference(
        "ScaledJob",
        "names of Jobs are random",
        "`<name>-<reading>-<index>`",
        "the name is what keeps a Job from being created twice",
    ),
    Difference(
        "ScaledJob",
        "which failed Jobs a history limit keeps is arbitrary",
        "those that failed last",
        "arbitrary includes this order",
    ),
    Difference(
        "ScaledObject",
        "an autoscaler asks for metrics every 15 seconds, unless `useCachedMetrics` is set",
        "only polls measure; `pollingInterval` says how often",
        _NO_AUTOSCALER,
    ),
    Difference(
        "ScaledObject",
        "windows and policies begin anew when the controller manager restarts",
        "they are in the status and go on",
        _NO_AUTOSCALER,
    ),
    Difference(
        "ScaledObject",
        "AverageValue starts from `status.replicas` of the target",
        "every metric starts from `spec.replicas`, which does not lag behind the last change",
        _NO_AUTOSCALER,
    ),
    Difference("ScaledObject", "the condition `HPAActive` and `status.hpaName`", "they are absent", _NO_AUTOSCALER),
    Difference(
        "ScaledObject",
        "two ScaledObjects of one target fight where the webhook is not installed",
        "the older one scales, the other says so",
        "each would undo what the other did",
    ),
    Difference(
        "ScaledObject",
        "the last values count until the source answers again, however old they are",
        "a reading older than two polls and a minute changes nothing",
        _UNKNOWN,
    ),
    Difference(
        "ScaledJob, ScaledObject",
        "the first problem of a manifest is told, and a wrong trigger after a missing target",
        "all problems are told at once, and as warnings when the manifest is applied",
        "the first one is among them",
    ),
    Difference(
        "ScaledObject",
        "the webhook warns of a `pollingInterval` where the minimum is above 0",
        "no warning: it says how often replicas above the minimum are decided on",
        "the warning would be wrong",
    ),
    Difference(
        "triggers",
        "hosts, URLs, ports and a negative `desiredReplicas` of cron fail in the poll, or are taken as they are",
        "they are refused when the trigger is read, by name",
        "the poll could only fail",
    ),
    Difference(
        "triggers",
        "parameters of services that are not supported here (`awsRegion`, `identityOwner` …) have an effect",
        "they are refused as not supported, also with `unknown-parameters`",
        "what authenticates must not be ignored",
    ),
    Difference(
        "triggers",
        "a `ca` that cannot be read is ignored; one that can is trusted beside the system's authorities",
        "it is refused; it is trusted in their stead",
        "a narrower trust is what the parameter asks for",
    ),
    Difference(
        "external",
        "a trigger whose `GetMetricSpec` fails is dropped",
        "it is an error of the trigger",
        _UNKNOWN,
    ),
    Difference(
        "authentications",
        "Penstock's counterpart, the operator, may read the Secrets of all namespaces",
        "those of its own namespace; others by name ([permissions](authentication.md#permissions))",
        "bindings of roles decide, not a flag",
    ),
)


def _table(rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table; the first row is its head."""
    head, *rest = ([*row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rest))


def render() -> str:
    """Returns both tables."""
    flags = ((f"`{name}`", each.of, each.keda, each.penstock) for name, each in FLAGS.items())
    others = ((each.of, each.keda, each.penstock, each.why) for each in WITHOUT_FLAG)
    first = _table((("name", "of", "KEDA", "Penstock otherwise"), *flags))
    return f"{first}\nThese have no flag:\n\n{_table((('of', 'KEDA', 'Penstock', 'why there is no flag'), *others))}"


if __name__ == "__main__":
    sys.stdout.write(render())
