"""The alerts and the expressions that are recorded for them. docs/runbooks has a page for each alert."""

from dataclasses import dataclass
from typing import Literal

#: critical: work stands still or may be lost, wake somebody. warning: somebody should look today.
Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class RecordedExpression:
    """An expression that Prometheus evaluates once for alerts and dashboards."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert. lasting: how long the expression must hold before somebody is told."""

    name: str
    expression: str
    lasting: str
    severity: Severity
    summary: str
    description: str


RECORDED = (
    RecordedExpression(
        "penstock:event_to_job_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (le, kind) (rate(penstock_event_to_job_seconds_bucket[5m])))",
    ),
    RecordedExpression(
        "penstock:schedule_lag_seconds:p99_10m",
        "histogram_quantile(0.99, sum by (le)"
        " (rate(penstock_cronjob_controller_job_creation_skew_duration_seconds_bucket[10m])))",
    ),
    RecordedExpression(
        "penstock:reconcile_failures:ratio_5m",
        'sum(rate(penstock_reconcile_total{outcome!~"done|nothing to do|Conflict|NotFound"}[5m]))'
        " / sum(rate(penstock_reconcile_total[5m]))",
    ),
    RecordedExpression(
        "penstock:api_failures:ratio_5m",
        'sum(rate(rest_client_requests_total{code=~"5..|429|<error>"}[5m]))'
        " / sum(rate(rest_client_requests_total[5m]))",
    ),
    RecordedExpression(
        "penstock:broker_memory:ratio",
        "max(penstock_broker_memory_bytes / penstock_broker_memory_limit_bytes)",
    ),
)

ALERTS = (
    AlertRule(
        "PenstockQueueStalled",
        "max by (lane) (penstock_oldest_ready_seconds) > 60",
        "1m",
        "critical",
        "Keys of the lane {{ $labels.lane }} wait for more than a minute",
        "The oldest ready key has waited for {{ $value | humanizeDuration }}. Nothing is decided (lane reconcile) or"
        " measured (lane poll) in time.",
    ),
    AlertRule(
        "PenstockNoWorkers",
        'absent(penstock_active_reconciles{lane="reconcile"})',
        "2m",
        "critical",
        "No worker process is scraped",
        "No process shows metrics of the lane reconcile: none runs, or Prometheus does not reach it.",
    ),
    AlertRule(
        "PenstockNoScalers",
        'absent(penstock_active_reconciles{lane="poll"})',
        "2m",
        "critical",
        "No scaler process is scraped",
        "No process shows metrics of the lane poll: none runs, or Prometheus does not reach it.",
    ),
    AlertRule(
        "PenstockNoLeader",
        "absent(penstock_leader) or max by (kind) (penstock_leader) == 0",
        "1m",
        "critical",
        "No watch process follows {{ $labels.kind }}",
        "Changes of these objects reach no decision; after a few seconds the kind counts as unknown.",
    ),
    AlertRule(
        "PenstockStaleKinds",
        'sum by (kind) (rate(penstock_reconcile_total{outcome="Stale"}[5m])) > 0',
        "5m",
        "warning",
        "{{ $labels.kind }} are not decided on: their watch is behind",
        "A watch process is too slow, or does not reach the API server or the broker.",
    ),
    AlertRule(
        "PenstockReconcilesFail",
        "penstock:reconcile_failures:ratio_5m > 0.1",
        "10m",
        "warning",
        "{{ $value | humanizePercentage }} of the reconciles fail",
        "They are tried again with backoff; races (Conflict, NotFound) do not count here.",
    ),
    AlertRule(
        "PenstockLeasesLost",
        "sum by (lane) (rate(penstock_leases_lost_total[5m])) > 0.05",
        "10m",
        "warning",
        "Processes of the lane {{ $labels.lane }} lose their leases",
        "Work is done twice over: a process is too slow, stopped for seconds, or cut off from the broker.",
    ),
    AlertRule(
        "PenstockProcessRestarts",
        "changes(process_start_time_seconds[15m]) > 3 and on (instance, job) penstock_build_info",
        "0m",
        "warning",
        "{{ $labels.instance }} started {{ $value }} times within 15 minutes",
        "A process that cannot work stops: its last log line tells why.",
    ),
    AlertRule(
        "PenstockEventsLate",
        "penstock:event_to_job_seconds:p99_5m > 5",
        "10m",
        "warning",
        "Events wait for more than 5 s for their Jobs ({{ $labels.kind }})",
        "One in a hundred events waited for {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "PenstockEventsParked",
        'max by (namespace, eventJob) (penstock_eventjob_events{state="parked"}) > 0',
        "5m",
        "warning",
        "{{ $value }} events of {{ $labels.namespace }}/{{ $labels.eventJob }} are parked",
        "Their last attempt has failed. They wait until somebody replays or drops them.",
    ),
    AlertRule(
        "PenstockEventsDropped",
        'sum by (outcome) (increase(penstock_pushed_events_total{outcome=~"dropped|parked"}[10m])) > 0',
        "0m",
        "critical",
        "{{ $value | humanize }} pushed entries were {{ $labels.outcome }} within ten minutes",
        "dropped: the intake was full (maxEvents). parked: the entry is no valid event.",
    ),
    AlertRule(
        "PenstockSchedulesLate",
        "penstock:schedule_lag_seconds:p99_10m > 30",
        "5m",
        "warning",
        "Scheduled runs begin more than 30 s late",
        "One in a hundred runs began {{ $value | humanizeDuration }} after its time.",
    ),
    AlertRule(
        "PenstockTriggersFail",
        "sum by (namespace, scaledObject, scaler) (increase(keda_scaler_detail_errors_total[10m])) > 0",
        "15m",
        "warning",
        "The trigger {{ $labels.scaler }} of {{ $labels.namespace }}/{{ $labels.scaledObject }} cannot be measured",
        "The object keeps what it has, or uses its fallback.",
    ),
    AlertRule(
        "PenstockPollsLate",
        "max by (namespace, resource) (keda_internal_scale_loop_latency_seconds) > 30",
        "10m",
        "warning",
        "{{ $labels.namespace }}/{{ $labels.resource }} is polled {{ $value | humanizeDuration }} late",
        "The scalers do not keep up with the polling intervals.",
    ),
    AlertRule(
        "PenstockObjectNotReady",
        "max by (kind, namespace, name) (penstock_not_ready) > 0",
        "15m",
        "warning",
        "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is not ready",
        "Its condition Ready is False, and says why.",
    ),
    AlertRule(
        "PenstockAPIServerFails",
        "penstock:api_failures:ratio_5m > 0.05",
        "10m",
        "warning",
        "{{ $value | humanizePercentage }} of the requests to the API server fail",
        "No answer, errors of the server (5xx), or its limits (429).",
    ),
    AlertRule(
        "PenstockBrokerMemory",
        "penstock:broker_memory:ratio > 0.7",
        "5m",
        "warning",
        "The broker uses {{ $value | humanizePercentage }} of its memory",
        "A full broker refuses writes: no event is taken and nothing is decided.",
    ),
    AlertRule(
        "PenstockBrokerEvicts",
        "max(penstock_broker_evicted_keys) > 0",
        "0m",
        "critical",
        "The broker has evicted {{ $value }} keys",
        "Its maxmemory-policy is not noeviction: parts of the queue, of the store or of the events are gone.",
    ),
    AlertRule(
        "PenstockBrokerNotPersistent",
        "min(penstock_broker_persistence_ok) == 0",
        "5m",
        "critical",
        "The broker cannot write to its disk",
        "A restart would lose what was pushed since the last good write; by default the broker refuses writes, too.",
    ),
)
