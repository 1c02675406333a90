"""The dashboards: overview, controllers, intake, scalers and broker."""

from typing import Any

from deploy.grafana.dashboard import INTERVAL, Board, BoardPanel, BoardRow, PanelQuery, Unit


def _rate(metric: str, by: str, selector: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{selector}[{INTERVAL}]))"


def _quantiles(metric: str, by: str = "", *, legend: str = "") -> tuple[PanelQuery, ...]:
    """Returns the median and the 99th percentile of a histogram."""
    grouped = f"le, {by}" if by else "le"
    return tuple(
        PanelQuery(
            f"histogram_quantile({quantile}, {_rate(f'{metric}_bucket', grouped)})",
            f"{legend} {name}".strip(),
        )
        for quantile, name in ((0.5, "p50"), (0.99, "p99"))
    )


def _panel(title: str, expression: str, legend: str, text: str, unit: Unit = "short", **more: Any) -> BoardPanel:
    """Returns a panel of one query."""
    return BoardPanel(title, (PanelQuery(expression, legend),), text, unit, **more)


def _rates(title: str, metric: str, by: str, text: str, selector: str = "") -> BoardPanel:
    """Returns a panel of a counter's rates, with a series for each value of the labels `by`."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return _panel(title, _rate(metric, by, selector), legend, text, "ops")


READY = _panel(
    "Ready keys",
    "max by (lane) (penstock_workqueue_depth)",
    "{{lane}}",
    "Objects that wait for a reconcile or a poll. A short peak is normal; a plateau asks for more processes.",
)
OLDEST = _panel(
    "Oldest ready key",
    "max by (lane) (penstock_oldest_ready_seconds)",
    "{{lane}}",
    "How long the longest waiting object has waited.",
    "s",
    red=60,
)
RECONCILES = _rates(
    "Reconciles",
    "penstock_reconcile_total",
    "outcome",
    "Reconciles by outcome; all but `done` and `nothing to do` are tried again.",
)
EVENT_TO_JOB = BoardPanel(
    "Event to Job",
    _quantiles("penstock_event_to_job_seconds", "kind", legend="{{kind}}"),
    "From the moment the intake took an event to the creation of its Job: what a sender waits for.",
    "s",
)
CREATED = _panel(
    "Objects created",
    _rate("penstock_objects_created_total", "owner, kind"),
    "{{kind}} of {{owner}}",
    "Jobs, pods and other objects that decisions created.",
    "ops",
)
NOT_READY = _panel(
    "Objects that are not ready",
    "max by (kind, namespace, name) (penstock_not_ready)",
    "",
    "Objects whose condition Ready is False; `penstock describe` tells the reason.",
    shape="table",
)
PARKED = _panel(
    "Parked events",
    'max by (namespace, eventJob) (penstock_eventjob_events{state="parked"})',
    "{{namespace}}/{{eventJob}}",
    "Events whose last attempt has failed: they wait for somebody to replay or drop them.",
    red=1,
)
LEADERS = _panel(
    "Kinds without a leader",
    "count(max by (kind) (penstock_leader) == 0) or vector(0)",
    "kinds",
    "Kinds that no watch process follows at this moment.",
    shape="stat",
    red=1,
)
MEMORY = _panel(
    "Broker's memory",
    "max(penstock_broker_memory_bytes / penstock_broker_memory_limit_bytes)",
    "used",
    "Share of the broker's maxmemory, or of its machine's memory if it has none.",
    "percentunit",
    red=0.7,
)
API_CODES = _rates(
    "Answers of the API server", "rest_client_requests_total", "code", "Requests by code; <error> had no answer."
)

OVERVIEW = Board(
    "penstock-overview",
    "Penstock / Overview",
    "Is work let through, and how quickly?",
    (
        BoardRow("From a push to a Job", (EVENT_TO_JOB, CREATED, PARKED)),
        BoardRow("The queue", (READY, OLDEST, RECONCILES)),
        BoardRow("What is wrong", (NOT_READY, LEADERS, API_CODES)),
        BoardRow("The broker", (MEMORY,)),
    ),
)

CONTROLLERS = Board(
    "penstock-controllers",
    "Penstock / Controllers",
    "Decisions, and the writes that carry them out.",
    (
        BoardRow(
            "Reconciles",
            (
                _rates(
                    "By kind",
                    "penstock_reconcile_total",
                    "kind",
                    "Reconciles by the object's kind; `any` had nothing to do.",
                ),
                BoardPanel(
                    "Time of one",
                    _quantiles("penstock_reconcile_time_seconds", "kind", legend="{{kind}}"),
                    "From the decision to the last write, for reconciles that had something to do.",
                    "s",
                ),
                _rates(
                    "Failures",
                    "penstock_reconcile_total",
                    "kind, outcome",
                    "Conflict and NotFound are ordinary races; others repeat with backoff until their cause is gone.",
                    selector='{outcome!~"done|nothing to do"}',
                ),
            ),
        ),
        BoardRow(
            "Workers",
            (
                _panel(
                    "Running now",
                    "sum by (lane) (penstock_active_reconciles)",
                    "{{lane}}",
                    "Claims that are being processed, in all processes.",
                ),
                _panel(
                    "Keys by state",
                    'max by (state) (penstock_workqueue_keys{lane="reconcile"})',
                    "{{state}}",
                    "Booked for later, due, leased, marked again while leased, and failing keys of the reconcile lane.",
                ),
                BoardPanel(
                    "Leases lost",
                    (
                        PanelQuery(_rate("penstock_leases_lost_total", "lane"), "{{lane}} lost"),
                        PanelQuery(_rate("penstock_stale_done_total", "lane"), "{{lane}} refused"),
                    ),
                    "Work that another process took over, because its holder was too slow or cut off.",
                    "ops",
                ),
                BoardPanel(
                    "Notifications",
                    (
                        PanelQuery(_rate("penstock_notifications_total", "lane"), "{{lane}} sent"),
                        PanelQuery(_rate("penstock_empty_notifications_total", "lane"), "{{lane}} found nothing"),
                    ),
                    "Celery messages; each makes one worker claim a batch.",
                    "ops",
                ),
                _rates("Keys claimed", "penstock_claimed_keys_total", "lane", "Keys that processes took to work on."),
            ),
        ),
        BoardRow(
            "Writes to the API server",
            (
                _rates("By step", "penstock_cluster_writes_total", "step, outcome", "Steps of plans by outcome."),
                API_CODES,
                BoardPanel(
                    "Time of one request",
                    _quantiles("rest_client_request_duration_seconds", "method", legend="{{method}}"),
                    "Until the answer was read.",
                    "s",
                ),
            ),
        ),
        BoardRow(
            "Jobs and schedules",
            (
                _rates(
                    "Jobs that ended",
                    "penstock_job_controller_jobs_finished_total",
                    "result, reason",
                    "Jobs whose pods Penstock runs.",
                ),
                BoardPanel(
                    "Runs later than their time",
                    _quantiles("penstock_cronjob_controller_job_creation_skew_duration_seconds"),
                    "From a scheduled moment to the creation of its Job.",
                    "s",
                    red=30,
                ),
                _panel(
                    "Unfinished Jobs of ScaledJobs",
                    "max by (namespace, scaledJob) (penstock_scaledjob_running_jobs)",
                    "{{namespace}}/{{scaledJob}}",
                    "As the last decision counted them.",
                ),
                _rates(
                    "Kubernetes Events dropped",
                    "penstock_events_dropped_total",
                    "why",
                    "Events that would have been one too many, or that the API server refused.",
                ),
            ),
        ),
    ),
)

INTAKE = Board(
    "penstock-intake",
    "Penstock / Intake",
    "Events from their push to their Job.",
    (
        BoardRow(
            "Events",
            (
                _rates(
                    "Pushed entries",
                    "penstock_pushed_events_total",
                    "outcome",
                    "Entries of streams by what became of them.",
                ),
                EVENT_TO_JOB,
                PARKED,
            ),
        ),
        BoardRow(
            "Gateway",
            (
                _rates(
                    "Requests",
                    "penstock_events_received_total",
                    "route, code",
                    "Requests by answer: 202 accepted, 429 no room, 503 the broker is away or the gateway is full.",
                ),
                BoardPanel(
                    "Time until events are accepted",
                    _quantiles("penstock_event_ingest_seconds"),
                    "From the last byte of a push until the broker has its events.",
                    "s",
                ),
                BoardPanel(
                    "Events of one round trip",
                    _quantiles("penstock_event_commit_size"),
                    "Requests in flight share round trips to the broker.",
                ),
                _panel(
                    "In flight",
                    "sum(penstock_gateway_in_flight_requests)",
                    "requests",
                    "Pushes that are read or wait for the broker.",
                ),
                _panel(
                    "Bytes in flight",
                    "sum(penstock_gateway_in_flight_bytes)",
                    "bytes",
                    "Bodies of those pushes.",
                    "bytes",
                ),
            ),
        ),
        BoardRow(
            "EventJobs",
            (
                _panel(
                    "Not done",
                    "max by (namespace, eventJob, state) (penstock_eventjob_events)",
                    "{{namespace}}/{{eventJob}} {{state}}",
                    "Events by state: waiting, delayed, running, retrying, parked.",
                    width=16,
                ),
            ),
        ),
    ),
)

SCALERS = Board(
    "penstock-scalers",
    "Penstock / Scalers",
    "What triggers measure, and how punctually.",
    (
        BoardRow(
            "Triggers",
            (
                _panel(
                    "Values",
                    "max by (namespace, scaledObject, metric, type) (keda_scaler_metrics_value)",
                    "{{namespace}}/{{scaledObject}} {{metric}}",
                    "What each trigger measured last.",
                ),
                _panel(
                    "Active triggers",
                    "sum by (type) (max by (namespace, scaledObject, metric, type) (keda_scaler_active))",
                    "",
                    "Triggers with work, for ScaledJobs and ScaledObjects.",
                ),
                _panel(
                    "Failed measurements",
                    f"sum by (namespace, scaledObject, scaler) (increase(keda_scaler_detail_errors_total[{INTERVAL}]))",
                    "{{namespace}}/{{scaledObject}} {{scaler}}",
                    "A failed measurement is no zero: the object keeps what it has, or falls back.",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Polls",
            (
                _panel(
                    "Time of one measurement",
                    "max by (scaler) (keda_scaler_metrics_latency_seconds)",
                    "{{scaler}}",
                    "How long the measured servers took to answer.",
                    "s",
                ),
                _panel(
                    "Later than the polling interval",
                    "max by (namespace, resource) (keda_internal_scale_loop_latency_seconds)",
                    "{{namespace}}/{{resource}}",
                    "Polls that began too late: more scaler processes help.",
                    "s",
                    red=30,
                ),
                BoardPanel(
                    "Poll lane",
                    (
                        PanelQuery('max(penstock_workqueue_depth{lane="poll"})', "ready"),
                        PanelQuery('max by (state) (penstock_workqueue_keys{lane="poll"})', "{{state}}"),
                    ),
                    "Objects that wait for a poll.",
                ),
                _panel(
                    "Registered triggers",
                    "max by (type) (keda_trigger_registered_total)",
                    "{{type}}",
                    "Triggers of all followed objects.",
                ),
            ),
        ),
    ),
)

BROKER = Board(
    "penstock-broker",
    "Penstock / Broker",
    "The Redis server that holds the queue, the store and the events.",
    (
        BoardRow(
            "Room",
            (
                MEMORY,
                BoardPanel(
                    "Memory",
                    (
                        PanelQuery("max(penstock_broker_memory_bytes)", "used"),
                        PanelQuery("max(penstock_broker_memory_limit_bytes)", "limit"),
                    ),
                    "Without a maxmemory the limit is the memory of the broker's machine.",
                    "bytes",
                ),
                _panel(
                    "Evicted keys",
                    "max(penstock_broker_evicted_keys)",
                    "evicted",
                    "Must be 0: the broker needs maxmemory-policy noeviction.",
                    shape="stat",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Load",
            (
                _panel(
                    "Commands",
                    f"max(rate(penstock_broker_commands[{INTERVAL}]))",
                    "commands",
                    "Commands that the broker carries out, those inside scripts left out.",
                    "ops",
                ),
                _panel(
                    "Connections",
                    "max by (state) (penstock_broker_clients)",
                    "{{state}}",
                    "Blocked ones wait for a message, as Celery's consumers do.",
                ),
                _panel(
                    "Last fork",
                    "max(penstock_broker_fork_seconds)",
                    "fork",
                    "While it forks for a snapshot the broker answers nobody.",
                    "s",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Safety",
            (
                _panel(
                    "Writes to disk",
                    "min(penstock_broker_persistence_ok)",
                    "ok",
                    "1 while snapshots and the append-only file are written without errors.",
                    shape="stat",
                ),
                _panel(
                    "Replicas",
                    "max(penstock_broker_replicas)",
                    "connected",
                    "Replicas that are connected.",
                    shape="stat",
                ),
            ),
        ),
    ),
)

#: All dashboards.
BOARDS = (OVERVIEW, CONTROLLERS, INTAKE, SCALERS, BROKER)
