"""The generator of docs/metrics.md, from the registered metrics: ``python -m deploy.metrics_reference``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.metrics import MetricWrapperBase

from scalers import metrics as scalers
from workers.metrics import process as workers
from workers.metrics import servers
from workers.metrics.expiring import Expiring, ExpiringCounter
from workers.metrics.object_families import FAMILIES

INTRODUCTION = """# Metrics

<!-- Made by `python -m deploy.metrics_reference`; a test compares it with the registered metrics. -->

Every process serves Prometheus metrics on `/metrics` of its `--metrics-port` (`PENSTOCK_METRICS_PORT`; 0, the default,
serves none), in plain HTTP and to everybody who can connect. Without `--metrics-address` it listens on all addresses,
which a scrape from outside its container needs; `penstock up` then listens on 127.0.0.1. Each process logs the address.
`penstock up` counts ports up from the setting: the workers', the scalers', the watch's, then the gateway's. Scrape all
of them. `penstock beat` serves none. Of the tables below the webhook and the external scaler show only the first. Each
process also shows `process_*` and `python_*` of the Prometheus client.

**Names.** `keda_*` and `volcano_*` are those of KEDA and of Volcano's controllers, with the same labels, so that their
dashboards work. `penstock_job_controller_*`, `penstock_cronjob_controller_*` and
`penstock_ttl_after_finished_controller_*` are Kubernetes' names behind `penstock_`; `rest_client_*` are client-go's.
The rest is Penstock's own.

**Types.** Volcano's `*_phase_count` are counters whose names do not end in `_total`. Dashboards query exactly these
names, and the formats know no such counter: they are served without a type (`unknown`), which PromQL ignores.
Histograms have `_bucket`, `_sum` and `_count`.

**Several processes.**

- An *object* metric describes objects as they are now. The one `watch` process that leads the objects' kind shows it:
  no series is shown twice, a restart loses none, and those of deleted objects vanish. When another process takes over,
  the series moves to it, and its `instance` changes: take the `max without (instance, pod)`.
- An *expiring* gauge is the value that one process saw last of an object; of several processes' values the newest is
  right. It is shown for five minutes after its last update, even if the object is deleted meanwhile, and has 10,000
  series at most.
- An *expiring* counter belongs to an object, too: take the `sum without (instance, pod)` of its `increase`. It is kept
  for an hour after its last update, and begins at zero when it comes back.
- Gauges of lanes, except `penstock_active_reconciles`, and of the broker are read from the broker by every process of
  the lane: take the maximum, not the sum. A broker whose ACL forbids INFO shows nothing of itself.
- All other counters and histograms count the work of one process: take the sum of their rates.
"""

DIFFERENCES = """Differences: `keda_scaler_detail_errors_total` counts triggers of ScaledJobs, too, where KEDA's
never rises. A poll that a push woke early is not late. `volcano_job_*_phase_count` survives a restart, which resets
Volcano's. A pod's latency is measured when it is created, to the millisecond; the Job's own time has whole seconds.
"""

#: Metrics of KEDA and Volcano that Penstock does not have, and the reasons.
ABSENT = {
    "`keda_build_info`": "`penstock_build_info` replaces it",
    "`keda_scaler_http_*`, `keda_scaler_empty_upstream_responses_total`": (
        "one request measures many triggers; failures count in `keda_scaler_detail_errors_total`"
    ),
    "`keda_internal_metricsservice_grpc_*`": "there is no metrics adapter: Penstock scales by itself",
    "`keda_cloudeventsource_*`": "there is no CloudEventSource; `penstock_pushed_events_total` counts incoming events",
    "`keda_webhook_scaled_object_*`": "the decision validates ScaledObjects; errors are in the condition `Ready`",
    "those of Volcano's scheduler (`volcano_queue_allocated_*`, `volcano_queue_share`, ...)": (
        "it is not needed; the resources of a queue's pods are in its status (`allocated`)"
    ),
}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric, as a scrape returns it."""

    name: str
    type: str
    labels: tuple[str, ...]
    text: str


_LANES = (
    workers.READY,
    workers.KEYS,
    workers.OLDEST,
    workers.ACTIVE,
    workers.CLAIMED,
    workers.NOTIFICATIONS,
    workers.EMPTY_NOTIFICATIONS,
    workers.LEASES_LOST,
    workers.STALE_DONE,
)
_SERVERS = (
    servers.REQUESTS,
    servers.REQUEST_SECONDS,
    servers.CONCURRENCY_LIMIT,
    servers.IN_FLIGHT,
    servers.WAITING,
    servers.THROTTLED_SECONDS,
    servers.THROTTLED,
    servers.CREATIONS_HELD,
)
_BROKER = (
    servers.BROKER_MEMORY,
    servers.BROKER_MEMORY_LIMIT,
    servers.BROKER_EVICTED,
    servers.BROKER_CLIENTS,
    servers.BROKER_PERSISTENT,
    servers.BROKER_FORK_SECONDS,
    servers.BROKER_REPLICAS,
    servers.BROKER_COMMANDS,
)
_POLLS = (
    scalers.VALUE,
    scalers.ACTIVE,
    scalers.LATENCY,
    scalers.LATENESS,
    scalers.ERRORS,
    scalers.JOB_ERRORS,
    scalers.OBJECT_ERRORS,
    workers.PUSHED,
)
_GATEWAY = (
    scalers.RECEIVED,
    scalers.INGEST_SECONDS,
    scalers.COMMIT_EVENTS,
    scalers.IN_FLIGHT_REQUESTS,
    scalers.IN_FLIGHT_BYTES,
)
_RECONCILES = (
    workers.RECONCILES,
    workers.RECONCILE_SECONDS,
    workers.WRITES,
    workers.CREATED,
    workers.EVENT_TO_JOB,
    workers.EVENTS_DROPPED,
    *workers.LEVELS.values(),
    *workers.MEASURES.values(),
)


def sections() -> dict[str, tuple[MetricRow, ...]]:
    """Returns all metrics by heading."""
    objects = tuple(
        MetricRow(family.name, "unknown, object" if family.counts else "gauge, object", family.labels, family.text)
        for family in FAMILIES
    )
    return {
        "Every process": _rows([workers.BUILD]),
        "Every process but beat: its requests to the API server": _rows(_SERVERS),
        "Workers and scalers: their lane": _rows(_LANES),
        "Workers and scalers: the broker": _rows(_BROKER),
        "Scalers": _rows(_POLLS),
        "Gateway": _rows(_GATEWAY),
        "Workers": _rows(_RECONCILES),
        "Watch": (*_rows((servers.LEADER,)), *objects),
    }


def render() -> str:
    """Returns the whole page as Markdown."""
    return "\n".join([INTRODUCTION, *(_section(*each) for each in sections().items()), _absent(), DIFFERENCES])


def _rows(collectors: Iterable[MetricWrapperBase | Expiring]) -> tuple[MetricRow, ...]:
    return tuple(_row(each) for each in collectors)


def _row(collector: MetricWrapperBase | Expiring) -> MetricRow:
    if isinstance(collector, Expiring):
        expiring = "expiring" if collector.life < float("inf") else ""
        type_ = "gauge"
        if isinstance(collector, ExpiringCounter):
            type_ = "counter" if collector.name.endswith("_total") else "unknown"
        return MetricRow(collector.name, ", ".join(filter(None, (type_, expiring))), collector.labels, collector.text)
    (family,) = collector.describe()
    # prometheus_client exposes the labels of a family without series only in a private attribute.
    labels = tuple(collector._labelnames) or (("version",) if family.type == "info" else ())
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return MetricRow(
        family.name + suffix, "gauge" if family.type == "info" else family.type, labels, family.documentation
    )


def _section(heading: str, rows: Sequence[MetricRow]) -> str:
    return "\n".join([f"## {heading}", "", "| metric | type | labels | says |", "|---|---|---|---|", *_lines(rows), ""])


def _absent() -> str:
    lines = (f"| {name} | {why} |" for name, why in ABSENT.items())
    return "\n".join(["## What is not there", "", "| metric | why not |", "|---|---|", *lines, ""])


def _lines(rows: Sequence[MetricRow]) -> Iterator[str]:
    for row in rows:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        yield f"| `{row.name}` | {row.type} | {labels} | {row.text} |"


if __name__ == "__main__":
    print(render(), end="")
