"""docs/metrics.md, made from what is registered: ``python -m deploy.metrics_reference > docs/metrics.md``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.metrics import MetricWrapperBase

from scalers import metrics as scalers
from workers.metrics import process as workers
from workers.metrics.expiring import Expiring, ExpiringCounter
from workers.metrics.object_families import FAMILIES

INTRODUCTION = """# Metrics

<!-- Made by `python -m deploy.metrics_reference`; a test keeps it in step with what is registered. -->

Every process serves Prometheus metrics on `/metrics` of its `--metrics-port` (`PENSTOCK_METRICS_PORT`; 0, the default,
serves none). `penstock up` counts ports up from it: the workers', the scalers', then the watch's. Scrape all of them.
`penstock beat` serves none. Of the tables below the webhook and the external scaler have something to say only in the
first. Each process also shows `process_*` and `python_*` of the Prometheus client.

**Names.** `keda_*` and `volcano_*` are those of KEDA and of Volcano's controllers, with the labels they have there, so
that dashboards made for those go on. `penstock_job_controller_*`, `penstock_cronjob_controller_*` and
`penstock_ttl_after_finished_controller_*` are Kubernetes' names behind `penstock_`. The rest is Penstock's own.

**Types.** Volcano's `*_phase_count` are counters whose names do not end in `_total`. Dashboards ask for exactly these
names, and the formats know no such counter: they are served without a type (`unknown`), which PromQL does not mind.
Histograms have `_bucket`, `_sum` and `_count`.

**Several processes.**

- A *standing* number belongs to objects as they are. It is shown by the one `watch` process that leads the objects'
  kind: nothing is shown twice, a restart loses nothing, and what is deleted is not shown any more. When another
  process takes over, the series moves to it, and its `instance` changes: take the `max without (instance, pod)`.
- A *fading* gauge is what one process saw last of an object; of several processes' the newest is right. It is shown
  for five minutes after that, also when the object is gone by then, and there are 10,000 series of it at most.
- A *fading* counter belongs to an object, too: take the `sum without (instance, pod)` of its `increase`. It is kept for
  an hour after it was last touched, and begins at zero when it comes back.
- Lanes are read from the broker by every process that works on them, as far as they are gauges other than
  `penstock_active_reconciles`: take the maximum, not the sum.
- All other counters and histograms count what one process did: take the sum of their rates.
"""

DIFFERENCES = """Differences: `keda_scaler_detail_errors_total` counts triggers of ScaledJobs, too, where KEDA's
never rises. A poll that is woken before its time is not late. `volcano_job_*_phase_count` survives a restart, which
forgets Volcano's. A pod's latency is taken when it is made, to the millisecond; the Job's own time has whole seconds.
"""

#: Metrics of KEDA and Volcano that are not there, and why.
ABSENT = {
    "`keda_build_info`": "there is no KEDA; `penstock_build_info` says what there is",
    "`keda_scaler_http_*`, `keda_scaler_empty_upstream_responses_total`": (
        "a server is asked once for many triggers; what fails counts in `keda_scaler_detail_errors_total`"
    ),
    "`keda_internal_metricsservice_grpc_*`": "there is no metrics adapter: Penstock scales by itself",
    "`keda_cloudeventsource_*`": "there is no CloudEventSource; `penstock_pushed_events_total` counts what comes in",
    "`keda_webhook_scaled_object_*`": "ScaledObjects are checked where they are decided on, and say so in `Ready`",
    "those of Volcano's scheduler (`volcano_queue_allocated_*`, `volcano_queue_share`, ...)": (
        "it is not needed; what the pods of a queue take is in its status (`allocated`)"
    ),
}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric, as it is asked for."""

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
_RECONCILES = (
    workers.RECONCILES,
    workers.RECONCILE_SECONDS,
    workers.WRITES,
    workers.CREATED,
    workers.EVENTS_DROPPED,
    *workers.LEVELS.values(),
    *workers.MEASURES.values(),
)


def sections() -> dict[str, tuple[MetricRow, ...]]:
    """All metrics, by heading."""
    standing = tuple(
        MetricRow(family.name, "unknown, standing" if family.counts else "gauge, standing", family.labels, family.text)
        for family in FAMILIES
    )
    return {
        "Every process": _rows([workers.BUILD]),
        "Workers and scalers: their lane": _rows(_LANES),
        "Scalers": _rows(_POLLS),
        "Workers": _rows(_RECONCILES),
        "Watch": standing,
    }


def render() -> str:
    """The whole page as Markdown."""
    return "\n".join([INTRODUCTION, *(_section(*each) for each in sections().items()), _absent(), DIFFERENCES])


def _rows(collectors: Iterable[MetricWrapperBase | Expiring]) -> tuple[MetricRow, ...]:
    return tuple(_row(each) for each in collectors)


def _row(collector: MetricWrapperBase | Expiring) -> MetricRow:
    if isinstance(collector, Expiring):
        fades = "fading" if collector.life < float("inf") else ""
        type_ = "gauge"
        if isinstance(collector, ExpiringCounter):
            type_ = "counter" if collector.name.endswith("_total") else "unknown"
        return MetricRow(collector.name, ", ".join(filter(None, (type_, fades))), collector.labels, collector.text)
    (family,) = collector.describe()
    # The library keeps the labels of a family without series to itself.
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
