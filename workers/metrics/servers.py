"""The metrics of the two servers that everything stands on, as one process sees them: the API server and the broker."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from weakref import WeakSet

from prometheus_client import Counter, Gauge, Histogram

#: client-go's names: dashboards of Kubernetes' own controllers show these processes too.
REQUESTS = Counter(
    "rest_client_requests_total",
    "Requests to the API server; code <error>: no answer",
    ["method", "code"],
)
REQUEST_SECONDS = Histogram(
    "rest_client_request_duration_seconds",
    "Time until an answer of the API server was read, streams left out",
    ["method"],
    buckets=(0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60),
)
CONCURRENCY_LIMIT = Gauge(
    "penstock_api_concurrency_limit", "Requests that this process may have in flight, as it found from the answers"
)
IN_FLIGHT = Gauge("penstock_api_requests_in_flight", "Requests to the API server under way, streams left out")
WAITING = Gauge("penstock_api_requests_waiting", "Requests that wait for the limit, by class", ["priority"])
THROTTLED_SECONDS = Counter(
    "penstock_api_throttled_seconds_total", "Seconds that requests have waited for the limit, by class", ["priority"]
)
THROTTLED = Counter(
    "penstock_api_throttled_total",
    "Requests that were not sent: the server asked for a pause, or too many waited; they are tried again later",
    ["priority"],
)
CREATIONS_HELD = Counter(
    "penstock_creations_held_total",
    "Creations not tried: the namespace has just refused the same kind to others, as by a quota",
    ["kind"],
)

LEADER = Gauge("penstock_leader", "1 while this process follows the objects of a kind for all others", ["kind"])

BROKER_MEMORY = Gauge("penstock_broker_memory_bytes", "Memory that the broker uses")
BROKER_MEMORY_LIMIT = Gauge("penstock_broker_memory_limit_bytes", "The broker's maxmemory, else its machine's memory")
BROKER_EVICTED = Gauge("penstock_broker_evicted_keys", "Keys that the broker evicted since its start; must stay 0")
BROKER_CLIENTS = Gauge("penstock_broker_clients", "Connections of the broker, by state", ["state"])
BROKER_PERSISTENT = Gauge("penstock_broker_persistence_ok", "1 if the broker's last write to its disk succeeded")
BROKER_FORK_SECONDS = Gauge("penstock_broker_fork_seconds", "How long the broker's last fork kept it from its work")
BROKER_REPLICAS = Gauge("penstock_broker_replicas", "Replicas that are connected to the broker")
BROKER_COMMANDS = Gauge("penstock_broker_commands", "Commands that the broker carried out since its start")


class Limiter(Protocol):
    """`workers.client.request_limiter.RequestLimiter`, as far as it is shown."""

    in_flight: int

    @property
    def allowed(self) -> int: ...


#: Those of this process.
LIMITERS: "WeakSet[Limiter]" = WeakSet()


def _total(value: "Callable[[Limiter], float]") -> "Callable[[], float]":
    return lambda: float(sum(map(value, tuple(LIMITERS))))


CONCURRENCY_LIMIT.set_function(_total(lambda limiter: limiter.allowed))
IN_FLIGHT.set_function(_total(lambda limiter: limiter.in_flight))

_WRITES_TO_DISK = ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status")


def export_request(method: str, status: int, seconds: float) -> None:
    """Counts one request to the API server. status: 0 without an answer."""
    REQUESTS.labels(method, str(status) if status else "<error>").inc()
    if status:
        REQUEST_SECONDS.labels(method).observe(seconds)


def export_broker(info: Mapping[str, Any]) -> None:
    """Exports the broker's own INFO. What a server does not tell stays as it was: unknown is not zero."""
    limit = info.get("maxmemory") or info.get("total_system_memory")
    values = (
        (BROKER_MEMORY, info.get("used_memory")),
        (BROKER_MEMORY_LIMIT, limit),
        (BROKER_EVICTED, info.get("evicted_keys")),
        (BROKER_CLIENTS.labels("connected"), info.get("connected_clients")),
        (BROKER_CLIENTS.labels("blocked"), info.get("blocked_clients")),
        (BROKER_REPLICAS, info.get("connected_slaves")),
        (BROKER_COMMANDS, info.get("total_commands_processed")),
    )
    for gauge, value in values:
        if value is not None:
            gauge.set(float(value))
    if (fork := info.get("latest_fork_usec")) is not None:
        BROKER_FORK_SECONDS.set(float(fork) / 1e6)
    told = [info[name] for name in _WRITES_TO_DISK if name in info]
    if told:
        BROKER_PERSISTENT.set(float(all(each == "ok" for each in told)))
