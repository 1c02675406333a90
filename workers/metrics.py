"""What this process counts, for Prometheus. Names follow client-go's and the field's; labels are bounded."""

import logging

from prometheus_client import Counter, Gauge, Histogram, start_http_server

from scheduler.queue import Stats

log = logging.getLogger(__name__)

RECONCILES = Counter("penstock_reconcile_total", "Reconciles by outcome", ["kind", "outcome"])
RECONCILE_SECONDS = Histogram(
    "penstock_reconcile_time_seconds",
    "Time of one reconcile that had something to do",
    ["kind"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
ACTIVE = Gauge("penstock_active_reconciles", "Reconciles running now", ["lane"])
READY = Gauge("penstock_workqueue_depth", "Keys that are ready, in the broker", ["lane"])
KEYS = Gauge(
    "penstock_workqueue_keys", "Other keys of the lane, in the broker, by what they wait for", ["lane", "state"]
)
OLDEST = Gauge("penstock_oldest_ready_seconds", "How long the longest waiting ready key has been ready", ["lane"])
CLAIMED = Counter("penstock_claimed_keys_total", "Keys claimed", ["lane"])
EMPTY_BELLS = Counter("penstock_empty_bells_total", "Bells that found nothing to claim", ["lane"])
BELLS = Counter("penstock_bells_total", "Bells rung", ["lane"])
LEASES_LOST = Counter("penstock_leases_lost_total", "Leases lost while work ran under them", ["lane"])
STALE_DONE = Counter("penstock_stale_done_total", "Outcomes refused because the lease was somebody else's", ["lane"])
WRITES = Counter("penstock_cluster_writes_total", "Writes to the API server by outcome", ["step", "outcome"])
EVENTS_DROPPED = Counter("penstock_events_dropped_total", "Kubernetes Events not written", ["why"])


_served: set[int] = set()


def lane(name: str, stats: Stats) -> None:
    """Show a lane's numbers. Every process that looks at the lane shows the same: take the maximum, not the sum."""
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


def serve(port: int) -> None:
    """Serve /metrics on this port of all interfaces, once; 0 serves nothing. A port that is taken stops no work."""
    if not port or port in _served:
        return
    try:
        start_http_server(port)
    except OSError as error:
        log.warning("metrics are not served", extra={"port": port, "error": str(error)})
    else:
        _served.add(port)
