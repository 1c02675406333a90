"""The dashboards: overview, controllers, intake, scalers and broker."""

from deploy.grafana.dashboard import INTERVAL, Board, BoardPanel, BoardRow, PanelQuery


def _rate(metric: str, by: str, selector: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{selector}[{INTERVAL}]))"


def _quantiles(metric: str, by: str = "", *, legend: str = "", selector: str = "") -> tuple[PanelQuery, ...]:
    """Returns the median and the 99th percentile of a histogram."""
    grouped = f"le, {by}" if by else "le"
    return tuple(
        PanelQuery(
            f"histogram_quantile({quantile}, {_rate(f'{metric}_bucket', grouped, selector)})",
            f"{legend} {name}".strip(),
        )
        for quantile, name in ((0.5, "p50"), (0.99, "p99"))
    )


READY = BoardPanel(
    "Ready keys",
    (PanelQuery("max by (lane) (penstock_workqueue_depth)", "{{lane}}"),),
    "Objects that wait for a reconcile or a poll. A short peak is normal; a plateau asks for more processes.",
)
OLDEST = BoardPanel(
    "Oldest ready key",
    (PanelQuery("max by (lane) (penstock_oldest_ready_seconds)", "{{lane}}"),),
    "How long the longest waiting object has waited.",
    "s",
    red=60,
)
RECONCILES = BoardPanel(
    "Reconciles",
    (PanelQuery(_rate("penstock_reconcile_total", "outcome"), "{{outcome}}"),),
    "Reconciles by outcome; all but `done` and `nothing to do` are tried again.",
    "ops",
)
EVENT_TO_JOB = BoardPanel(
    "Event to Job",
    _quantiles("penstock_event_to_job_seconds", "kind", legend="{{kind}}"),
    "From the moment the intake took an event to the creation of its Job: what a sender waits for.",
    "s",
)
CREATED = BoardPanel(
    "Objects created",
    (PanelQuery(_rate("penstock_objects_created_total", "owner, kind"), "{{kind}} of {{owner}}"),),
    "Jobs, pods and other objects that decisions created.",
    "ops",
)
NOT_READY = BoardPanel(
    "Objects that are not ready",
    (PanelQuery("max by (kind, namespace, name) (penstock_not_ready)"),),
    "Objects whose condition Ready is False; `penstock describe` tells the reason.",
    shape="table",
)
PARKED = BoardPanel(
    "Parked events",
    (
        PanelQuery(
            'max by (namespace, eventJob) (penstock_eventjob_events{state="parked"})', "{{namespace}}/{{eventJob}}"
        ),
    ),
    "Events whose last attempt has failed: they wait for somebody to replay or drop them.",
    red=1,
)
LEADERS = BoardPanel(
    "Kinds without a leader",
    (PanelQuery("count(max by (kind) (penstock_leader) == 0) or vector(0)", "kinds"),),
    "Kinds that no watch process follows at this moment.",
    shape="stat",
    red=1,
)
MEMORY = BoardPanel(
    "Broker's memory",
    (PanelQuery("max(penstock_broker_memory_bytes / penstock_broker_memory_limit_bytes)", "used"),),
    "Share of the broker's maxmemory, or of its machine's memory if it has none.",
    "percentunit",
    red=0.7,
)
API_CODES = BoardPanel(
    "Answers of the API server",
    (PanelQuery(_rate("rest_client_requests_total", "code"), "{{code}}"),),
    "Requests by code; <error> had no answer.",
    "ops",
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
                BoardPanel(
                    "By kind",
                    (PanelQuery(_rate("penstock_reconcile_total", "kind"), "{{kind}}"),),
                    "Reconciles by the object's kind; `any` had nothing to do.",
                    "ops",
                ),
                BoardPanel(
                    "Time of one",
                    _quantiles("penstock_reconcile_time_seconds", "kind", legend="{{kind}}"),
                    "From the decision to the last write, for reconciles that had something to do.",
                    "s",
                ),
                BoardPanel(
                    "Failures",
                    (
                        PanelQuery(
                            _rate("penstock_reconcile_total", "kind, outcome", '{outcome!~"done|nothing to do"}'),
                            "{{kind}} {{outcome}}",
                        ),
                    ),
                    "Conflict and NotFound are ordinary races; others repeat with backoff until their cause is gone.",
                    "ops",
                ),
            ),
        ),
        BoardRow(
            "Workers",
            (
                BoardPanel(
                    "Running now",
                    (PanelQuery("sum by (lane) (penstock_active_reconciles)", "{{lane}}"),),
                    "Claims that are being processed, in all processes.",
                ),
                BoardPanel(
                    "Keys by state",
                    (
                        PanelQuery(
                            'max by (state) (penstock_workqueue_keys{lane="reconcile"})',
                            "{{state}}",
                        ),
                    ),
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
                BoardPanel(
                    "Keys claimed",
                    (PanelQuery(_rate("penstock_claimed_keys_total", "lane"), "{{lane}}"),),
                    "Keys that processes took to work on.",
                    "ops",
                ),
            ),
        ),
        BoardRow(
            "Writes to the API server",
            (
                BoardPanel(
                    "By step",
                    (PanelQuery(_rate("penstock_cluster_writes_total", "step, outcome"), "{{step}} {{outcome}}"),),
                    "Steps of plans by outcome.",
                    "ops",
                ),
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
                BoardPanel(
                    "Jobs that ended",
                    (
                        PanelQuery(
                            _rate("penstock_job_controller_jobs_finished_total", "result, reason"),
                            "{{result}} {{reason}}",
                        ),
                    ),
                    "Jobs whose pods Penstock runs.",
                    "ops",
                ),
                BoardPanel(
                    "Runs later than their time",
                    _quantiles("penstock_cronjob_controller_job_creation_skew_duration_seconds"),
                    "From a scheduled moment to the creation of its Job.",
                    "s",
                    red=30,
                ),
                BoardPanel(
                    "Unfinished Jobs of ScaledJobs",
                    (
                        PanelQuery(
                            "max by (namespace, scaledJob) (penstock_scaledjob_running_jobs)",
                            "{{namespace}}/{{scaledJob}}",
                        ),
                    ),
                    "As the last decision counted them.",
                ),
                BoardPanel(
                    "Kubernetes Events dropped",
                    (PanelQuery(_rate("penstock_events_dropped_total", "why"), "{{why}}"),),
                    "Events that would have been one too many, or that the API server refused.",
                    "ops",
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
                BoardPanel(
                    "Pushed entries",
                    (PanelQuery(_rate("penstock_pushed_events_total", "outcome"), "{{outcome}}"),),
                    "Entries of streams by what became of them.",
                    "ops",
                ),
                EVENT_TO_JOB,
                PARKED,
            ),
        ),
        BoardRow(
            "EventJobs",
            (
                BoardPanel(
                    "Not done",
                    (
                        PanelQuery(
                            "max by (namespace, eventJob, state) (penstock_eventjob_events)",
                            "{{namespace}}/{{eventJob}} {{state}}",
                        ),
                    ),
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
                BoardPanel(
                    "Values",
                    (
                        PanelQuery(
                            "max by (namespace, scaledObject, metric, type) (keda_scaler_metrics_value)",
                            "{{namespace}}/{{scaledObject}} {{metric}}",
                        ),
                    ),
                    "What each trigger measured last.",
                ),
                BoardPanel(
                    "Active triggers",
                    (
                        PanelQuery(
                            "sum by (type) (max by (namespace, scaledObject, metric, type) (keda_scaler_active))"
                        ),
                    ),
                    "Triggers with work, for ScaledJobs and ScaledObjects.",
                ),
                BoardPanel(
                    "Failed measurements",
                    (
                        PanelQuery(
                            "sum by (namespace, scaledObject, scaler) "
                            f"(increase(keda_scaler_detail_errors_total[{INTERVAL}]))",
                            "{{namespace}}/{{scaledObject}} {{scaler}}",
                        ),
                    ),
                    "A failed measurement is no zero: the object keeps what it has, or falls back.",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Polls",
            (
                BoardPanel(
                    "Time of one measurement",
                    (
                        PanelQuery(
                            "max by (scaler) (keda_scaler_metrics_latency_seconds)",
                            "{{scaler}}",
                        ),
                    ),
                    "How long the measured servers took to answer.",
                    "s",
                ),
                BoardPanel(
                    "Later than the polling interval",
                    (
                        PanelQuery(
                            "max by (namespace, resource) (keda_internal_scale_loop_latency_seconds)",
                            "{{namespace}}/{{resource}}",
                        ),
                    ),
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
                BoardPanel(
                    "Registered triggers",
                    (PanelQuery("max by (type) (keda_trigger_registered_total)", "{{type}}"),),
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
                BoardPanel(
                    "Evicted keys",
                    (PanelQuery("max(penstock_broker_evicted_keys)", "evicted"),),
                    "Must be 0: the broker needs maxmemory-policy noeviction.",
                    shape="stat",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Load",
            (
                BoardPanel(
                    "Commands",
                    (PanelQuery(f"max(rate(penstock_broker_commands[{INTERVAL}]))", "commands"),),
                    "Commands that the broker carries out, those inside scripts left out.",
                    "ops",
                ),
                BoardPanel(
                    "Connections",
                    (PanelQuery("max by (state) (penstock_broker_clients)", "{{state}}"),),
                    "Blocked ones wait for a message, as Celery's consumers do.",
                ),
                BoardPanel(
                    "Last fork",
                    (PanelQuery("max(penstock_broker_fork_seconds)", "fork"),),
                    "While it forks for a snapshot the broker answers nobody.",
                    "s",
                    red=1,
                ),
            ),
        ),
        BoardRow(
            "Safety",
            (
                BoardPanel(
                    "Writes to disk",
                    (PanelQuery("min(penstock_broker_persistence_ok)", "ok"),),
                    "1 while snapshots and the append-only file are written without errors.",
                    shape="stat",
                ),
                BoardPanel(
                    "Replicas",
                    (PanelQuery("max(penstock_broker_replicas)", "connected"),),
                    "Replicas that are connected.",
                    shape="stat",
                ),
            ),
        ),
    ),
)

#: All dashboards.
BOARDS = (OVERVIEW, CONTROLLERS, INTAKE, SCALERS, BROKER)
