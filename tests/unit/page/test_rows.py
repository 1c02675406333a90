"""Rows: the phase, tone and message of an object of every kind, from its body alone."""

from typing import Any

import pytest

from deploy.object_rows import derivation
from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref


def condition(type_: str, status: str, reason: str = "", message: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def body(kind: Kind, status: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    named = {"namespace": "shop", "name": "it", "uid": "uid-it", **metadata}
    found = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named, "spec": spec or {}}
    return found if status is None else {**found, "status": status}


def conditions(*found: Object, **more: Any) -> Object:
    return {"conditions": list(found), **more}


READY = condition("Ready", "True", "ScaledJobReady", "ready")
BROKEN = condition("Ready", "False", "TriggerError", "redis: no answer")
SCALED = kinds.SCALED_JOB
EVENTS = kinds.EVENT_JOB
RUNS = kinds.SCHEDULED_JOB
WAITING_POD = {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable", "no cpu")]}


def container(**state: Any) -> Object:
    return {"containerStatuses": [{"name": "main", "ready": False, "restartCount": 3, "state": state}]}


def ready_container() -> Object:
    return {"containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}]}


CONTAINERS = {"containers": [{"name": "main"}]}

CASES: dict[str, tuple[Kind, Object, tuple[str, str, str]]] = {
    # Scaled objects
    "not measured yet": (SCALED, body(SCALED), ("New", "waiting", "not measured yet")),
    "measured, no work": (SCALED, body(SCALED, conditions(READY)), ("Idle", "ok", "")),
    "measured, work": (SCALED, body(SCALED, conditions(READY, condition("Active", "True"))), ("Active", "active", "")),
    "a trigger fails": (
        SCALED,
        body(SCALED, conditions(BROKEN)),
        ("NotReady", "error", "TriggerError: redis: no answer"),
    ),
    "one of two triggers fails": (
        SCALED,
        body(SCALED, conditions(condition("Ready", "Unknown", "PartialTriggerError", "s1 fails"))),
        ("PartlyReady", "warning", "PartialTriggerError: s1 fails"),
    ),
    "a pause hides an error": (
        SCALED,
        body(SCALED, conditions(BROKEN, condition("Paused", "True", "ScaledJobPaused", "by annotation"))),
        ("Paused", "paused", "ScaledJobPaused: by annotation"),
    ),
    "a fallback": (
        SCALED,
        body(SCALED, conditions(READY, condition("Fallback", "True", "FallbackExists", "3 Jobs"))),
        ("Fallback", "warning", "FallbackExists: 3 Jobs"),
    ),
    "a server left alone": (
        SCALED,
        body(SCALED, conditions(READY, sourcesLeftAlone=[{"source": "redis:6379"}])),
        ("PartlyReady", "warning", "asked less often because it fails: redis:6379"),
    ),
    "capped by a policy": (
        SCALED,
        body(SCALED, conditions(READY, condition("Active", "True"), condition("Capped", "True", "Policy", "2 of 9"))),
        ("Capped", "waiting", "Policy: 2 of 9"),
    ),
    "a ScaledObject": (
        kinds.SCALED_OBJECT,
        body(kinds.SCALED_OBJECT, conditions(READY, condition("Active", "True"))),
        ("Active", "active", ""),
    ),
    # EventJobs
    "an EventJob not polled yet": (EVENTS, body(EVENTS), ("New", "waiting", "not polled yet")),
    "an EventJob at work": (EVENTS, body(EVENTS, conditions(READY, events={"running": 2})), ("Active", "active", "")),
    "an EventJob whose events wait": (
        EVENTS,
        body(EVENTS, conditions(READY, events={"waiting": 1, "delayed": 2})),
        ("Waiting", "waiting", "3 events wait for room or their time"),
    ),
    "an EventJob with nothing to do": (EVENTS, body(EVENTS, conditions(READY, events={"done": 9})), ("Idle", "ok", "")),
    "parked events come before a suspension": (
        EVENTS,
        body(EVENTS, conditions(READY, events={"parked": 2, "running": 1}), {"suspend": True}),
        ("Parked", "warning", "2 events parked after the last attempt failed"),
    ),
    "an EventJob that is suspended": (
        EVENTS,
        body(EVENTS, conditions(READY), {"suspend": True}),
        ("Suspended", "paused", "events are taken in, and no Job is created"),
    ),
    "an EventJob whose channel is taken": (
        EVENTS,
        body(EVENTS, conditions(condition("Ready", "False", "ChannelTaken", "by a ScaledJob"))),
        ("NotReady", "error", "ChannelTaken: by a ScaledJob"),
    ),
    # Schedules
    "a schedule that waits": (RUNS, body(RUNS, conditions(READY)), ("Scheduled", "ok", "")),
    "a schedule at work": (RUNS, body(RUNS, conditions(READY, active=[{"name": "it-1"}])), ("Running", "active", "")),
    "a suspended schedule": (
        RUNS,
        body(RUNS, conditions(READY), {"suspend": True}),
        ("Suspended", "paused", "no further run starts"),
    ),
    "a schedule that cannot start": (
        RUNS,
        body(RUNS, conditions(BROKEN)),
        ("NotReady", "error", "TriggerError: redis: no answer"),
    ),
    "a run that is tried again": (
        RUNS,
        body(RUNS, conditions(READY, runs=[{"outcome": "Retrying", "reason": "Failed"}])),
        ("Retrying", "warning", "Failed"),
    ),
    "a schedule whose last run failed": (
        RUNS,
        body(
            RUNS,
            conditions(READY, outcomes=[{"outcome": "Succeeded"}, {"outcome": "Failed", "reason": "Limit"}]),
        ),
        ("LastRunFailed", "warning", "Limit"),
    ),
    "a schedule whose last run succeeded": (
        RUNS,
        body(RUNS, conditions(READY, outcomes=[{"outcome": "Failed"}, {"outcome": "Succeeded"}])),
        ("Scheduled", "ok", ""),
    ),
    "a CronJob": (kinds.CRON_JOB, body(kinds.CRON_JOB, {"active": [{}]}), ("Running", "active", "")),
    "a Volcano CronJob": (
        kinds.VC_CRON_JOB,
        body(kinds.VC_CRON_JOB, {}, {"suspend": True}),
        ("Suspended", "paused", "no further run starts"),
    ),
    # Jobs
    "a Job without pods": (kinds.JOB, body(kinds.JOB), ("Pending", "waiting", "it has no pods yet")),
    "a Job whose pods start": (
        kinds.JOB,
        body(kinds.JOB, {"active": 1}),
        ("Pending", "waiting", "its pods have not started"),
    ),
    "a Job at work": (kinds.JOB, body(kinds.JOB, {"active": 2, "ready": 1}), ("Running", "active", "")),
    "a Job that failed before": (
        kinds.JOB,
        body(kinds.JOB, {"active": 1, "ready": 1, "failed": 2}),
        ("Running", "active", "2 pods failed before"),
    ),
    "a complete Job": (kinds.JOB, body(kinds.JOB, conditions(condition("Complete", "True"))), ("Complete", "ok", "")),
    "a failed Job": (
        kinds.JOB,
        body(kinds.JOB, conditions(condition("Failed", "True", "BackoffLimitExceeded", "too often"))),
        ("Failed", "error", "BackoffLimitExceeded: too often"),
    ),
    "a suspended Job": (kinds.JOB, body(kinds.JOB, {}, {"suspend": True}), ("Suspended", "paused", "")),
    "a Job about to fail": (
        kinds.JOB,
        body(kinds.JOB, conditions(condition("FailureTarget", "True", "PodFailurePolicy"))),
        ("Failing", "warning", "PodFailurePolicy"),
    ),
    "a Job in deletion": (
        kinds.JOB,
        body(kinds.JOB, deletionTimestamp="2026-03-01T00:00:00Z"),
        ("Terminating", "waiting", ""),
    ),
    # Workloads
    "a Deployment without replicas": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, {}, {"replicas": 0}),
        ("ScaledToZero", "ok", ""),
    ),
    "a Deployment that starts": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, {"readyReplicas": 1}, {"replicas": 3}),
        ("Progressing", "waiting", "1 of 3 replicas are ready"),
    ),
    "a Deployment that works": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, {"readyReplicas": 1}),
        ("Available", "ok", ""),
    ),
    "a Deployment that is stuck": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, conditions(condition("Progressing", "False", "ProgressDeadlineExceeded", "no"))),
        ("Stuck", "error", "ProgressDeadlineExceeded: no"),
    ),
    "a ReplicaSet that may create no pod": (
        kinds.REPLICA_SET,
        body(kinds.REPLICA_SET, conditions(condition("ReplicaFailure", "True", "FailedCreate", "quota"))),
        ("Failing", "error", "FailedCreate: quota"),
    ),
    "a paused Deployment": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, {"readyReplicas": 1}, {"paused": True}),
        ("Paused", "paused", "changes are not rolled out"),
    ),
    # Pods
    "a pod without a node": (
        kinds.POD,
        body(kinds.POD, WAITING_POD, CONTAINERS),
        ("Pending", "waiting", "Unschedulable: no cpu"),
    ),
    "a pod whose image is missing": (
        kinds.POD,
        body(
            kinds.POD,
            {"phase": "Pending", **container(waiting={"reason": "ErrImagePull"})},
            CONTAINERS,
        ),
        ("ErrImagePull", "error", "main: ErrImagePull"),
    ),
    "a pod at work": (
        kinds.POD,
        body(kinds.POD, {"phase": "Running", **ready_container()}, CONTAINERS),
        ("Running", "active", ""),
    ),
    "a pod that is not ready": (
        kinds.POD,
        body(kinds.POD, {"phase": "Running", **container(running={})}, CONTAINERS),
        ("Running", "waiting", "0/1 containers are ready"),
    ),
    "a pod that crashes": (
        kinds.POD,
        body(kinds.POD, {"phase": "Running", **container(waiting={"reason": "CrashLoopBackOff"})}, CONTAINERS),
        ("CrashLoopBackOff", "error", "main: CrashLoopBackOff"),
    ),
    "a pod that ended": (kinds.POD, body(kinds.POD, {"phase": "Succeeded"}, CONTAINERS), ("Succeeded", "ok", "")),
    "a pod that failed": (
        kinds.POD,
        body(kinds.POD, {"phase": "Failed", **container(terminated={"exitCode": 3, "reason": "Error"})}, CONTAINERS),
        ("Error", "error", "main: exit code 3"),
    ),
    # Volcano
    "a gang that waits": (kinds.VC_JOB, body(kinds.VC_JOB), ("Pending", "waiting", "")),
    "a gang at work": (
        kinds.VC_JOB,
        body(kinds.VC_JOB, {"state": {"phase": "Running", "message": "left over"}}),
        ("Running", "active", ""),
    ),
    "a gang that failed": (
        kinds.VC_JOB,
        body(kinds.VC_JOB, {"state": {"phase": "Failed", "reason": "PodFailed"}, "conditions": [{"status": "X"}]}),
        ("Failed", "error", "PodFailed"),
    ),
    "an aborted gang": (kinds.VC_JOB, body(kinds.VC_JOB, {"state": {"phase": "Aborted"}}), ("Aborted", "paused", "")),
    "an open queue": (kinds.QUEUE, body(kinds.QUEUE, {"state": "Open"}), ("Open", "ok", "")),
    "a queue with waiting groups": (
        kinds.QUEUE,
        body(kinds.QUEUE, {"state": "Open", "pending": 2}),
        ("Open", "waiting", "2 PodGroups wait"),
    ),
    "a closed queue": (
        kinds.QUEUE,
        body(kinds.QUEUE, {"state": "Closed", "pending": 2}),
        ("Closed", "paused", "2 PodGroups wait"),
    ),
    "a group that lacks room": (
        kinds.POD_GROUP,
        body(kinds.POD_GROUP, conditions(condition("Unschedulable", "True", "NotEnoughResources", "2 cpu"))),
        ("Pending", "waiting", "NotEnoughResources: 2 cpu"),
    ),
    "a group at work": (kinds.POD_GROUP, body(kinds.POD_GROUP, {"phase": "Running"}), ("Running", "active", "")),
    "a flow that ended": (kinds.JOB_FLOW, body(kinds.JOB_FLOW, {"state": {"phase": "Succeed"}}), ("Succeed", "ok", "")),
    "a flow that failed": (
        kinds.JOB_FLOW,
        body(kinds.JOB_FLOW, {"state": {"phase": "Failed"}}),
        ("Failed", "error", ""),
    ),
    "a flow that cannot go on": (
        kinds.JOB_FLOW,
        body(kinds.JOB_FLOW, {"state": {"phase": "Running"}, "flowConditions": [BROKEN]}),
        ("Running", "error", "TriggerError: redis: no answer"),
    ),
    "a suspended flow": (
        kinds.JOB_FLOW,
        body(kinds.JOB_FLOW, {"state": {"phase": "Running"}}, {"suspend": True}),
        ("Suspended", "paused", "it starts nothing further"),
    ),
    "a suspended flow that is over": (
        kinds.JOB_FLOW,
        body(kinds.JOB_FLOW, {"state": {"phase": "Failed"}}, {"suspend": True}),
        ("Failed", "error", ""),
    ),
    "a template": (kinds.JOB_TEMPLATE, body(kinds.JOB_TEMPLATE), ("Ready", "ok", "")),
    "a command": (
        kinds.COMMAND,
        {**body(kinds.COMMAND), "action": "AbortJob", "target": {"kind": "Job", "name": "gang"}},
        ("Issued", "waiting", "AbortJob for Job gang"),
    ),
    # Others
    "a policy": (kinds.SCALE_POLICY, body(kinds.SCALE_POLICY, {}, {"maxJobs": 4}), ("Active", "ok", "at most 4 Jobs")),
    "an unused authentication": (
        kinds.TRIGGER_AUTHENTICATION,
        body(kinds.TRIGGER_AUTHENTICATION, {}),
        ("Unused", "ok", ""),
    ),
    "a status of another form": (
        kinds.JOB,
        body(kinds.JOB, {"conditions": [7]}),
        ("Unreadable", "warning", "its status cannot be read: AttributeError: 'int' object has no attribute 'get'"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_says_phase_tone_and_why(case: str) -> None:
    kind, object_, expected = CASES[case]
    row = derivation.derived(Ref(kind, "shop", "it"), object_)
    assert (row.phase, row.tone, row.message) == expected
    assert row.uid == "uid-it"


def test_every_shown_kind_has_a_case() -> None:
    cases = {kind.id for kind, _, _ in CASES.values()}
    alike = {kinds.STATEFUL_SET.id, kinds.CLUSTER_TRIGGER_AUTHENTICATION.id}
    assert derivation.SHOWN.keys() - cases == alike


NUMBERS: dict[str, tuple[Kind, Object, dict[str, int]]] = {
    "of an EventJob": (
        EVENTS,
        body(EVENTS, {"events": {"waiting": 1, "delayed": 2, "retrying": 3, "running": 4, "parked": 5, "done": 6}}),
        {"waiting": 1, "delayed": 2, "retrying": 3, "running": 4, "parked": 5, "done": 6, "pending": 5},
    ),
    "unknown ones are left out": (EVENTS, body(EVENTS, {"events": {"done": 6}}), {"done": 6}),
    "of a Job": (
        kinds.JOB,
        body(kinds.JOB, {"active": 1, "succeeded": 2, "failed": 3}),
        {"running": 1, "done": 2, "failed": 3},
    ),
    "of a Deployment": (
        kinds.DEPLOYMENT,
        body(kinds.DEPLOYMENT, {"readyReplicas": 1}, {"replicas": 3}),
        {"replicas": 3, "running": 1, "pending": 2},
    ),
    "of a queue": (
        kinds.QUEUE,
        body(kinds.QUEUE, {"pending": 1, "inqueue": 2, "running": 3, "completed": 4}),
        {"waiting": 1, "pending": 2, "running": 3, "done": 4},
    ),
    "of a flow": (
        kinds.JOB_FLOW,
        body(kinds.JOB_FLOW, {"pendingJobs": ["a"], "failedJobs": ["b", "c"]}),
        {"pending": 1, "running": 0, "done": 0, "failed": 2},
    ),
    "texts are no numbers": (kinds.JOB, body(kinds.JOB, {"active": "1"}), {"running": 0, "done": 0, "failed": 0}),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_the_numbers(case: str) -> None:
    kind, object_, expected = NUMBERS[case]
    assert derivation.derived(Ref(kind, "shop", "it"), object_).numbers == expected


def test_times_have_milliseconds_and_owners_their_kind() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    times = {
        "completionTime": "2026-03-01T02:00:00Z",
        "conditions": [{**condition("Complete", "True"), "lastTransitionTime": "bad"}],
    }
    created = {"creationTimestamp": "2026-03-01T01:00:00+01:00", "ownerReferences": [owner]}
    row = derivation.derived(Ref(kinds.JOB, "shop", "it"), body(kinds.JOB, times, **created))
    assert (row.created, row.last) == ("2026-03-01T00:00:00.000Z", "2026-03-01T02:00:00.000Z")
    assert row.owner == {"kind": "cronjobs.batch", "namespace": "shop", "name": "nightly"}
    assert row.conditions[0]["since"] is None


def test_a_long_message_is_cut_to_one_line() -> None:
    failed = conditions(condition("Failed", "True", "X", "many\nwords " * 200))
    message = derivation.derived(Ref(kinds.JOB, "shop", "it"), body(kinds.JOB, failed)).message
    assert len(message) == 300
    assert "\n" not in message
