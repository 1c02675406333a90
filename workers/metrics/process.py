"""The metrics of this process. Names follow client-go's; the number of label values is bounded."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram, Info, start_http_server

from scheduler.queue import Stats
from workers.api.kinds import Ref
from workers.decision.plan import Level, Metric
from workers.metrics.expiring import FOR_EVER, ExpiringCounter, ExpiringGauge

log = logging.getLogger(__name__)

BUILD = Info("penstock_build", "Which Penstock this is")
BUILD.info({"version": version("penstock")})

RECONCILES = Counter("penstock_reconcile_total", "Reconciles by outcome", ["kind", "outcome"])
RECONCILE_SECONDS = Histogram(
    "penstock_reconcile_time_seconds",
    "Time of one reconcile that had something to do",
    ["kind"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
ACTIVE = Gauge("penstock_active_reconciles", "Reconciles running now", ["lane"])
READY = Gauge("penstock_workqueue_depth", "Ready keys, in the broker", ["lane"])
KEYS = Gauge("penstock_workqueue_keys", "Other keys of the lane, in the broker, by state", ["lane", "state"])
OLDEST = Gauge("penstock_oldest_ready_seconds", "How long the longest waiting ready key has been ready", ["lane"])
CLAIMED = Counter("penstock_claimed_keys_total", "Keys claimed", ["lane"])
EMPTY_NOTIFICATIONS = Counter(
    "penstock_empty_notifications_total", "Notifications that found nothing to claim", ["lane"]
)
NOTIFICATIONS = Counter("penstock_notifications_total", "Notifications sent", ["lane"])
LEASES_LOST = Counter("penstock_leases_lost_total", "Leases lost while work ran under them", ["lane"])
STALE_DONE = Counter("penstock_stale_done_total", "Outcomes refused because the lease was stale", ["lane"])
WRITES = Counter("penstock_cluster_writes_total", "Writes to the API server by outcome", ["step", "outcome"])
PUSHED = Counter("penstock_pushed_events_total", "Pushed entries by what became of them", ["outcome"])
EVENTS_DROPPED = Counter("penstock_events_dropped_total", "Kubernetes Events not written", ["why"])

CREATED = Counter(
    "penstock_objects_created_total", "Objects created, by their owner's kind", ["owner", "kind", "namespace"]
)

EVENT_TO_JOB = Histogram(
    "penstock_event_to_job_seconds",
    "From the moment a stream took an event to the creation of its first Job, by the Job's owner",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)

#: Gauges of objects (`plan.Plan.levels`).
LEVELS: Mapping[Level, ExpiringGauge] = {
    "scaledjob_running": ExpiringGauge(
        "penstock_scaledjob_running_jobs", "Jobs of a ScaledJob that are not finished", ["namespace", "scaledJob"]
    ),
    "scaledjob_pending": ExpiringGauge(
        "penstock_scaledjob_pending_jobs", "Those of them without a working pod", ["namespace", "scaledJob"]
    ),
}


def _spread(first: float, last: float, number: int) -> list[float]:
    """Returns so many bucket bounds in geometric progression."""
    return [round(first * (last / first) ** (place / (number - 1)), 3) for place in range(number)]


#: Counters and histograms of decisions (`plan.CountMetric`).
MEASURES: Mapping[Metric, Counter | ExpiringCounter | Histogram] = {
    "job_creation_skew": Histogram(
        "penstock_cronjob_controller_job_creation_skew_duration_seconds",
        "How long after its scheduled time a Job was created",
        buckets=[2.0**n for n in range(10)],
    ),
    "job_deletion_delay": Histogram(
        "penstock_ttl_after_finished_controller_job_deletion_duration_seconds",
        "How long after its time to live a finished Job was deleted",
        buckets=[0.1 * 2**n for n in range(14)],
    ),
    "jobs_finished": Counter(
        "penstock_job_controller_jobs_finished_total", "Jobs that ended", ["completion_mode", "result", "reason"]
    ),
    "job_pods_finished": Counter(
        "penstock_job_controller_job_pods_finished_total", "Finished pods counted", ["completion_mode", "result"]
    ),
    "job_finished_indexes": Counter(
        "penstock_job_controller_job_finished_indexes_total", "Indexes that ended", ["status", "backoffLimit"]
    ),
    "pod_failures_handled": Counter(
        "penstock_job_controller_pod_failures_handled_by_failure_policy_total",
        "Failed pods that a rule of the podFailurePolicy matched",
        ["action"],
    ),
    "jobflows_succeeded": ExpiringCounter(
        "volcano_jobflow_succeed_phase_count", "JobFlows that succeeded", ["jobflow_namespace"], life=FOR_EVER
    ),
    "jobflows_failed": ExpiringCounter(
        "volcano_jobflow_failed_phase_count", "JobFlows that failed", ["jobflow_namespace"], life=FOR_EVER
    ),
    "vcjob_pod_latency": Histogram(
        "volcano_controller_job_to_pod_creation_latency_milliseconds",
        "How long after its Volcano Job a pod was created, in milliseconds",
        buckets=_spread(50.0, 60_000.0, 30),
    ),
}

_served: set[int] = set()


def measure(metric: Metric, value: float, labels: Sequence[str] = (), times: int = 1) -> None:
    """Counts what a decision measured. times: how often a histogram observes the value.

    Raises ValueError if there are not as many labels as the metric has.
    """
    family = MEASURES[metric]
    if isinstance(family, ExpiringCounter):
        family.add(value, tuple(labels))
        return
    one = family.labels(*labels) if labels else family
    if isinstance(one, Counter):
        one.inc(value)
        return
    for _ in range(times):
        one.observe(value)


def show(ref: Ref, levels: Iterable[tuple[Level, float]]) -> None:
    """Shows the gauges of one object's decision."""
    for level, value in levels:
        LEVELS[level].set(value, (ref.namespace, ref.name))


def lane(name: str, stats: Stats) -> None:
    """Shows a lane's numbers. Every process of the lane shows the same: take the maximum, not the sum."""
    READY.labels(name).set(stats.ready)
    OLDEST.labels(name).set(stats.oldest or 0.0)
    for state, keys in (
        ("later", stats.later),
        ("due", stats.due),
        ("leased", stats.leased),
        ("expired", stats.expired),
        ("dirty", stats.dirty),
        ("failing", stats.failing),
    ):
        KEYS.labels(name, state).set(keys)


def serve(port: int, address: str = "0.0.0.0") -> None:
    """Serves /metrics on this port of an address, once; 0 serves nothing. A taken port is logged, not raised."""
    if not port or port in _served:
        return
    where = {"address": address, "port": port}
    try:
        start_http_server(port, address)
    except OSError as error:
        log.warning("metrics are not served", extra={**where, "error": str(error)})
    else:
        _served.add(port)
        log.info("metrics are served", extra=where)
