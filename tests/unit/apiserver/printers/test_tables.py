"""Tables: the columns and cells of a real server, ages, and the columns of custom resources."""

from datetime import UTC, datetime, timedelta
from typing import Any

from deploy.local.apiserver.printers import ages, jsonpath, tables
from tests.support.tables import cases, for_each
from workers.api.kinds import EVENT, JOB, NODE, POD, RESOURCE_QUOTA, SCALED_JOB, Kind

NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)
MADE = "2026-01-10T11:00:00Z"
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")


def cells(kind: Kind, body: dict[str, Any], columns: list[dict[str, Any]] | None = None) -> list[Any]:
    body = {**body, "metadata": {"name": "x", "creationTimestamp": MADE, **body.get("metadata", {})}}
    made = tables.table(kind, [body], now=NOW, columns=columns, resource_version="7", include="None")
    found = made["rows"][0]["cells"]
    assert len(found) == len(made["columnDefinitions"])
    assert isinstance(found, list)
    return found


MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@for_each(
    *((-5, "<invalid>"), (-1, "0s"), (119, "119s"), (120, "2m"), (3 * MINUTE + 20, "3m20s")),
    *((10 * MINUTE + 20, "10m"), (179 * MINUTE, "179m"), (3 * HOUR, "3h"), (5 * HOUR + 3 * MINUTE, "5h3m")),
    *((26 * HOUR, "26h"), (5 * DAY + 4 * HOUR, "5d4h"), (120 * DAY, "120d")),
    *((3 * YEAR + 20 * DAY, "3y20d"), (9 * YEAR + 100 * DAY, "9y")),
)
def test_durations_are_short(seconds: int, text: str) -> None:
    assert ages.human(timedelta(seconds=seconds)) == text


def state(**what: Any) -> dict[str, Any]:
    return {"name": "c", "restartCount": 0, "ready": "running" in what, "state": what}


def phase(name: str, *states: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod's status with the states of its containers."""
    return {"phase": name, "containerStatuses": list(states), **more}


def initializing(*states: dict[str, Any]) -> dict[str, Any]:
    return {"phase": "Pending", "initContainerStatuses": list(states)}


@cases(
    ("nothing known", {}, "0/1", "Pending"),
    ("running", phase("Running", state(running={})), "1/1", "Running"),
    ("completed", phase("Succeeded", state(terminated={"reason": "Completed"})), "0/1", "Completed"),
    ("an exit code", phase("Failed", state(terminated={"exitCode": 3})), "0/1", "ExitCode:3"),
    ("a signal", phase("Failed", state(terminated={"signal": 9})), "0/1", "Signal:9"),
    ("waiting", phase("Pending", state(waiting={"reason": "CrashLoopBackOff"})), "0/1", "CrashLoopBackOff"),
    ("initializing", initializing(state(terminated={"exitCode": 0}), state(running={})), "0/1", "Init:1/2"),
    (
        "a failed init container",
        initializing(state(terminated={"exitCode": 1, "reason": "Error"})),
        *("0/1", "Init:Error"),
    ),
    ("a reason", {"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted"),
)
def test_a_pod_in_a_word(status: Any, ready: str, word: str) -> None:
    inits = [{"name": "i"}, {"name": "k"}]
    body = {"spec": {"containers": [{"name": "c"}], "initContainers": inits}, "status": status}
    assert cells(POD, body)[1:4] == [ready, word, "0"]


ENDED = {**state(terminated={"exitCode": 143, "reason": "Error"}), "name": "s"}
STARTED = {**state(running={}), "name": "s", "started": True, "ready": True}
INITIALIZED = {"conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready")]}


@cases(
    (
        "was ended when the pod had succeeded",
        *(ENDED, phase("Succeeded", state(terminated={"reason": "Completed"}), **INITIALIZED)),
        *("0/2", "Completed"),
    ),
    (
        "was ended when the pod had failed",
        *(ENDED, phase("Failed", state(terminated={"reason": "Error"}), **INITIALIZED)),
        *("0/2", "Error"),
    ),
    ("runs", STARTED, phase("Running", state(running={}), **INITIALIZED), "2/2", "Running"),
    ("has not started", {**STARTED, "started": False, "ready": False}, {"phase": "Pending"}, "0/2", "Init:0/1"),
    ("fails before anything else", ENDED, {"phase": "Pending"}, "0/2", "Init:Error"),
    ("has started", {**STARTED, "ready": False}, {"phase": "Pending"}, "0/2", "Pending"),
)
def test_a_pod_with_a_sidecar_in_a_word(sidecar: Any, status: Any, ready: str, word: str) -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}
    status = {**status, "initContainerStatuses": [{**sidecar, "restartCount": 4}]}
    assert cells(POD, {"spec": spec, "status": status})[1:4] == [ready, word, "4"]


def test_the_first_container_in_trouble_names_the_pod() -> None:
    waiting = [state(waiting={"reason": reason}) for reason in ("ErrImagePull", "CrashLoopBackOff")]
    body = {"spec": {"containers": [{}, {}, {}]}, "status": phase("Pending", *waiting, state(running={}))}
    assert cells(POD, body)[1:3] == ["1/3", "ErrImagePull"]


def test_restarts_tell_when_the_last_one_was() -> None:
    ended = {"terminated": {"finishedAt": "2026-01-10T11:55:00Z"}}
    status = {"containerStatuses": [{**state(running={}), "restartCount": 3, "lastState": ended}]}
    assert cells(POD, {"spec": {"containers": [{}]}, "status": status})[3] == "3 (5m ago)"


def test_a_deleted_pod_is_terminating() -> None:
    assert cells(POD, {"metadata": {"deletionTimestamp": MADE}, "spec": {"containers": [{}]}})[2] == "Terminating"


def condition(*kinds: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True"} for kind in kinds]}


ONE = {"completions": 1}
DONE = {"succeeded": 1, "startTime": MADE, "completionTime": "2026-01-10T11:00:42Z", **condition("Complete")}


@cases(
    ("running", {"completions": 3}, {"succeeded": 1}, ["Running", "1/3", ""]),
    ("a work queue", {"parallelism": 4}, {}, ["Running", "0/1 of 4", ""]),
    ("a work queue of one", {"parallelism": 1}, {}, ["Running", "0/1", ""]),
    ("complete", ONE, DONE, ["Complete", "1/1", "42s"]),
    ("failed", ONE, {"startTime": MADE, **condition("Failed")}, ["Failed", "0/1", "60m"]),
    ("suspended", ONE, condition("Suspended"), ["Suspended", "0/1", ""]),
    ("about to fail", ONE, condition("FailureTarget"), ["FailureTarget", "0/1", ""]),
    ("about to succeed", ONE, condition("SuccessCriteriaMet"), ["SuccessCriteriaMet", "0/1", ""]),
    ("an end comes first", ONE, condition("Failed", "FailureTarget", "Suspended"), ["Failed", "0/1", ""]),
    ("a pause comes before what is to come", *(ONE, condition("FailureTarget", "Suspended")), ["Suspended", "0/1", ""]),
)
def test_a_job_in_a_row(spec: Any, status: Any, shown: list[str]) -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    selector = {"matchLabels": {"b": "2", "a": "1"}}
    row = cells(JOB, {"spec": {**spec, "template": template, "selector": selector}, "status": status})
    assert row == ["x", *shown, "60m", "a,b", "x,y", "a=1,b=2"]


@for_each((condition("Suspended"), "Terminating"), (condition("Complete"), "Complete"))
def test_a_deleted_job_is_terminating_until_it_has_ended(status: Any, word: str) -> None:
    assert cells(JOB, {"metadata": {"deletionTimestamp": MADE}, "spec": {}, "status": status})[1] == word


def test_a_gated_pod_says_so() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    body = {"spec": {"containers": [{}]}, "status": {"phase": "Pending", "conditions": [gated]}}
    assert cells(POD, body)[1:3] == ["0/1", "SchedulingGated"]


ACTIVE = {"active": [{}], "lastScheduleTime": "2026-01-10T11:59:00Z"}


@cases(
    ("never ran", {"suspend": False}, {}, ["<none>", "False", 0, "<none>"]),
    ("runs", {"suspend": True, "timeZone": "Etc/UTC"}, ACTIVE, ["Etc/UTC", "True", 1, "60s"]),
)
def test_a_cron_job_in_a_row(spec: Any, status: Any, row: list[Any]) -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {}}, **spec}
    assert cells(CRON_JOB, {"spec": spec, "status": status})[:7] == ["x", "@daily", *row, "60m"]


def test_an_event_counts_its_series() -> None:
    body = {
        "involvedObject": {"kind": "Job", "name": "j"},
        "type": "Normal",
        "reason": "R",
        "message": "M\n",
        "source": {"component": "us", "host": "h"},
        "firstTimestamp": MADE,
        "count": 1,
        "series": {"count": 5, "lastObservedTime": "2026-01-10T11:59:59.000000Z"},
    }
    assert cells(EVENT, body) == ["1s", "Normal", "R", "job/j", "", "us, h", "M", "60m", 5, "x"]


def test_a_node_has_roles() -> None:
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}
    row = cells(NODE, {"metadata": {"labels": labels}, "status": condition("Ready")})
    assert row[1:4] == ["Ready", "control-plane,worker", "60m"]


def test_a_quota_says_what_is_used_of_it() -> None:
    hard = {"requests.cpu": "2", "pods": "5", "limits.cpu": "4", "limits.memory": "1Gi"}
    status = {"hard": hard, "used": {"pods": "1", "requests.cpu": "500m", "limits.cpu": "0", "limits.memory": "0"}}
    row = ["pods: 1/5, requests.cpu: 500m/2", "limits.cpu: 0/4, limits.memory: 0/1Gi"]
    assert cells(RESOURCE_QUOTA, {"status": status}) == ["x", "60m", *row]
    assert cells(RESOURCE_QUOTA, {"spec": {"hard": hard}}) == ["x", "60m", "", ""]


COLUMNS: list[dict[str, Any]] = [
    {"name": "Active", "type": "boolean", "jsonPath": ".spec.active"},
    {"name": "Count", "type": "integer", "jsonPath": ".status.count", "priority": 1},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def test_a_custom_resource_has_the_columns_of_its_definition() -> None:
    status = {"count": 3, "conditions": [{"type": "Active", "status": "False"}, {"type": "Ready", "status": "True"}]}
    assert cells(SCALED_JOB, {"spec": {"active": True}, "status": status}, COLUMNS) == ["x", True, 3, "True", "60m"]
    assert cells(SCALED_JOB, {"spec": {"active": "yes"}}, COLUMNS) == ["x", None, None, None, "60m"]


@for_each((MADE, "60m"), ("soon", "<invalid>"), ("2026-01-10T11:00:00", "<invalid>"), (5, None), (None, None))
def test_a_moment_of_a_custom_resource_may_be_anything(moment: Any, shown: str | None) -> None:
    column = {"name": "Next", "type": "date", "jsonPath": ".status.next"}
    status = {} if moment is None else {"next": moment}
    assert cells(SCALED_JOB, {"status": status}, [column]) == ["x", shown]


def test_a_custom_resource_without_columns_shows_its_age() -> None:
    assert cells(SCALED_JOB, {}) == ["x", "60m"]


@for_each("Metadata", "Object", "None")
def test_rows_carry_the_requested_part_of_the_object(include: Any) -> None:
    body = {"metadata": {"name": "x"}, "spec": {}}
    made = tables.table(SCALED_JOB, [body], now=NOW, columns=None, resource_version="7", include=include)
    assert made["metadata"] == {"resourceVersion": "7"}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    assert made["rows"][0].get("object") == {"Metadata": partial, "Object": body, "None": None}[include]


@for_each(
    *((".a.b", [1]), ("{.a.b}", [1]), (".a['x\\.y']", [2]), (".a['x.y']", []), (".a.x\\.y", [2])),
    *((".l[0]", [5]), (".l[-1]", [6]), (".l[9]", []), (".l[*]", [5, 6])),
    *((".c[?(@.n==2)].v", ["two"]), (".c[?(@.n!=2)].v", ["one"]), (".c[?(broken", []), (".absent.deep", [])),
)
def test_paths_are_followed(path: str, found: list[Any]) -> None:
    body = {"a": {"b": 1, "x.y": 2}, "l": [5, 6], "c": [{"n": 1, "v": "one"}, {"n": 2, "v": "two"}]}
    assert jsonpath.find(path, body) == found
