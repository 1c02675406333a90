"""The generator of the tables of docs/metrics.md, from registered metrics: ``python -m deploy.metrics_reference``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.metrics import MetricWrapperBase

from deploy import generated_docs
from scalers import metrics as scalers
from workers.metrics import process as workers
from workers.metrics import servers
from workers.metrics.expiring import Expiring, ExpiringCounter
from workers.metrics.object_families import FAMILIES


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
    """Returns the tables as Markdown."""
    return "\n".join(_section(*each) for each in sections().items())


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


def _lines(rows: Sequence[MetricRow]) -> Iterator[str]:
    for row in rows:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        yield f"| `{row.name}` | {row.type} | {labels} | {row.text} |"


if __name__ == "__main__":
    generated_docs.write("metrics.md", render())
