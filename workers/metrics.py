"""What this process counts, for Prometheus. Names follow client-go's and the field's; labels are bounded."""

from prometheus_client import Counter, Gauge, Histogram, start_http_server

RECONCILES = Counter("penstock_reconcile_total", "Reconciles by outcome", ["kind", "outcome"])
RECONCILE_SECONDS = Histogram(
    "penstock_reconcile_time_seconds",
    "Time of one reconcile that had something to do",
    ["kind"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
ACTIVE = Gauge("penstock_active_reconciles", "Reconciles running now", ["lane"])
CLAIMED = Counter("penstock_claimed_keys_total", "Keys claimed", ["lane"])
EMPTY_BELLS = Counter("penstock_empty_bells_total", "Bells that found nothing to claim", ["lane"])
BELLS = Counter("penstock_bells_total", "Bells rung", ["lane"])
LEASES_LOST = Counter("penstock_leases_lost_total", "Leases lost while work ran under them", ["lane"])
STALE_DONE = Counter("penstock_stale_done_total", "Outcomes refused because the lease was somebody else's", ["lane"])
WRITES = Counter("penstock_cluster_writes_total", "Writes to the API server by outcome", ["step", "outcome"])
EVENTS_DROPPED = Counter("penstock_events_dropped_total", "Kubernetes Events not written", ["why"])


def serve(port: int) -> None:
    """Serve /metrics on this port of all interfaces; 0 serves nothing."""
    if port:
        start_http_server(port)
