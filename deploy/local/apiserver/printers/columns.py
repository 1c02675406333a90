"""The columns that ``kubectl get`` shows of each built-in kind, as a real server has them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from deploy.local.apiserver.codec import selectors
from deploy.local.apiserver.printers import ages, jsonpath, pod_summary
from deploy.local.apiserver.strategies.kept import KeptKind, row_of
from workers.api.kinds import Kind, Object

#: The cells of one object's row.
Cells = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """A table's shape. definitions: the columns as the Table object spells them."""

    definitions: tuple[Object, ...]
    cells: Cells


def of(kind: Kind) -> ColumnLayout:
    """A kind's layout; a kind without one of its own shows names and ages."""
    if (row := row_of(kind)) is not None:
        return _kept(row)
    return _LAYOUTS.get(kind.id, PLAIN)


def column(name: str, kind: str, description: str, *, form: str = "", priority: int = 0) -> Object:
    """One column's definition; priority above 0 is for wide output only."""
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def _layout(cells: Cells, *names: str) -> ColumnLayout:
    """A layout whose columns are spelled ``Name``, ``*Name`` for wide output only, ``Name:type`` if it is no text."""
    made = []
    for spelled in names:
        name, _, kind = spelled.removeprefix("*").partition(":")
        about = _DESCRIPTIONS.get(name, f"{name} of the object.")
        form = "name" if name == "Name" else ""
        made.append(column(name, kind or "string", about, form=form, priority=int(spelled.startswith("*"))))
    return ColumnLayout(tuple(made), cells)


_DESCRIPTIONS = {
    "Name": "Name of the object, unique within its namespace.",
    "Age": "How long ago the object was created.",
    "Completions": "Pods that succeeded, of those wanted.",
    "Duration": "How long the job took, or has been running.",
    "Limit": "Limits that are used, of those allowed.",
    "Ready": "How much of it is ready, of all.",
    "Request": "What is used of all else, of what is allowed.",
    "Status": "What the object is doing.",
}


def _name(body: Object) -> str:
    return str(body["metadata"]["name"])


def _age(body: Object, now: datetime) -> str:
    return ages.age(body["metadata"].get("creationTimestamp"), now)


def _spec(body: Object) -> Object:
    return body.get("spec") or {}


def _status(body: Object) -> Object:
    return body.get("status") or {}


def _some(value: Any) -> str:
    return "<none>" if value in (None, "", [], {}) else str(value)


def _containers(template: Object | None) -> list[Any]:
    """Names and images of a template's containers, joined by commas."""
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [",".join(c.get(field, "") for c in containers) for field in ("name", "image")]


def _selected(spec: Object) -> str:
    """Returns the selector of a spec on one line, as ``-l`` takes it."""
    return selectors.spelled(spec.get("selector")) or "<none>"


def _pod(body: Object, now: datetime) -> list[Any]:
    status = _status(body)
    gates = _spec(body).get("readinessGates")
    ips = [item.get("ip") for item in status.get("podIPs") or ()]
    return [
        _name(body),
        *pod_summary.summary(body, now),
        _age(body, now),
        _some(ips[0] if ips else status.get("podIP")),
        _some(_spec(body).get("nodeName")),
        _some(status.get("nominatedNodeName")),
        f"0/{len(gates)}" if gates else "<none>",
    ]


def job_word(body: Object) -> str:
    """A Job's status in a word: the first that applies, failures and successes before what is still going on."""
    true = {c.get("type") for c in _status(body).get("conditions") or () if c.get("status") == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if "deletionTimestamp" in body["metadata"]:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def _job(body: Object, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    succeeded, completions, parallelism = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism")
    queue = f"1 of {parallelism}" if (parallelism or 0) > 1 else "1"
    wanted = queue if completions is None else str(completions)
    duration = ""
    if (start := status.get("startTime")) is not None:
        end = status.get("completionTime")
        duration = ages.age(start, datetime.fromisoformat(end) if end else now)
    return [
        _name(body),
        job_word(body),
        f"{succeeded}/{wanted}",
        duration,
        _age(body, now),
        *_containers(spec.get("template")),
        _selected(spec),
    ]


def _cron_job(body: Object, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        _name(body),
        spec.get("schedule", ""),
        _some(spec.get("timeZone")),
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        ages.age(last, now) if last else "<none>",
        _age(body, now),
        *_containers(job.get("template")),
        _selected(job),
    ]


def _row(*cells: Callable[[Object], Any]) -> Cells:
    """The row of a name, what these functions make of an object, and its age."""
    return lambda body, now: [_name(body), *(cell(body) for cell in cells), _age(body, now)]


def _workload(*cells: Callable[[Object], Any]) -> Cells:
    """Such a row, with the containers and the selector of the object's pods."""
    row = _row(*cells)
    return lambda body, now: [*row(body, now), *_containers(_spec(body).get("template")), _selected(_spec(body))]


def _replicas(field: str) -> Callable[[Object], int]:
    return lambda body: int(_status(body).get(field, 0))


def _wanted(body: Object) -> int:
    return int(_spec(body).get("replicas", 0))


def _ready(body: Object) -> str:
    return f"{_status(body).get('readyReplicas', 0)}/{_wanted(body)}"


def _event(body: Object, now: datetime) -> list[Any]:
    about = body.get("involvedObject") or body.get("regarding") or {}
    source = body.get("source") or body.get("deprecatedSource") or {}
    first = body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")
    last = body.get("lastTimestamp") or body.get("deprecatedLastTimestamp") or first
    count = body.get("count") or body.get("deprecatedCount") or 1
    if series := body.get("series"):
        last, count = series.get("lastObservedTime") or last, series.get("count") or count
    component = source.get("component") or body.get("reportingComponent") or body.get("reportingController") or ""
    place = f"{component}, {source['host']}" if source.get("host") else component
    return [
        ages.age(last, now),
        body.get("type", ""),
        body.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        place,
        (body.get("message") or body.get("note") or "").strip(),
        ages.age(first, now),
        count,
        _name(body),
    ]


def _node(body: Object, now: datetime) -> list[Any]:
    status = _status(body)
    info = status.get("nodeInfo") or {}
    ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    prefix = "node-role.kubernetes.io/"
    labels = body["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    addresses = {item.get("type"): item.get("address") for item in status.get("addresses") or ()}
    return [
        _name(body),
        f"{word},SchedulingDisabled" if _spec(body).get("unschedulable") else word,
        ",".join(filter(None, roles)) or "<none>",
        _age(body, now),
        info.get("kubeletVersion", ""),
        _some(addresses.get("InternalIP")),
        _some(addresses.get("ExternalIP")),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _service(body: Object, now: datetime) -> list[Any]:
    spec = _spec(body)
    ports = [
        f"{port.get('port')}:{port['nodePort']}/{port.get('protocol', 'TCP')}"
        if port.get("nodePort")
        else f"{port.get('port')}/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports") or ()
    ]
    external = spec.get("externalName") or ",".join(spec.get("externalIPs") or ())
    return [
        _name(body),
        spec.get("type", ""),
        _some(spec.get("clusterIP")),
        _some(external),
        ",".join(ports) or "<none>",
        _age(body, now),
        selectors.spelled({"matchLabels": spec.get("selector") or {}}) or "<none>",
    ]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim(body: Object, now: datetime) -> list[Any]:
    spec, status = _spec(body), _status(body)
    deleting = "deletionTimestamp" in body["metadata"]
    modes = status.get("accessModes") or ()
    return [
        _name(body),
        "Terminating" if deleting else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        ",".join(_MODES.get(mode, mode) for mode in modes),
        spec.get("storageClassName", ""),
        _age(body, now),
        spec.get("volumeMode", "<unset>"),
    ]


def _endpoints(body: Object) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in body.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ({"port": ""},)
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or "<none>"


def _data(body: Object) -> int:
    return len(body.get("data") or ()) + len(body.get("binaryData") or ())


@cache
def _kept(row: KeptKind) -> ColumnLayout:
    """The layout of a kind whose columns are paths."""
    titles, cells = zip(*(_path_column(spelled) for spelled in row.columns), strict=True)
    return _layout(lambda body, now: [_name(body), *(cell(body, now) for cell in cells)], "Name", *titles)


def _path_column(spelled: str) -> tuple[str, Callable[[Object, datetime], str]]:
    """Title and cell of ``Age``, or of ``Title=.path/.other``, whose values a slash joins."""
    title, _, text = spelled.partition("=")
    if not text:
        return title, _age
    paths = [f".{path}" for path in text.removeprefix(".").split("/.")]

    def cell(body: Object, _now: datetime) -> str:
        found = [",".join(map(str, jsonpath.find(path, body))) for path in paths]
        return "/".join(found) if all(found) else "<none>"

    return title, cell


def _quota(body: Object, now: datetime) -> list[Any]:
    hard, used = _status(body).get("hard") or {}, _status(body).get("used") or {}
    shown: tuple[list[str], list[str]] = ([], [])
    for name in sorted(hard):
        shown[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [_name(body), _age(body, now), *map(", ".join, shown)]


_WIDE = ("*Containers", "*Images", "*Selector")
_EVENT = _layout(
    _event,
    *("Last Seen", "Type", "Reason", "Object", "*Subobject", "*Source"),
    *("Message", "*First Seen", "*Count", "*Name"),
)
PLAIN = _layout(_row(), "Name", "Age")
_LAYOUTS: dict[str, ColumnLayout] = {
    "pods": _layout(
        _pod, "Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"
    ),
    "jobs.batch": _layout(_job, "Name", "Status", "Completions", "Duration", "Age", *_WIDE),
    "cronjobs.batch": _layout(
        _cron_job,
        *("Name", "Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age"),
        *_WIDE,
    ),
    "deployments.apps": _layout(
        _workload(_ready, _replicas("updatedReplicas"), _replicas("availableReplicas")),
        *("Name", "Ready", "Up-to-date", "Available", "Age", *_WIDE),
    ),
    "replicasets.apps": _layout(
        _workload(_wanted, _replicas("replicas"), _replicas("readyReplicas")),
        *("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_WIDE),
    ),
    "statefulsets.apps": _layout(
        lambda body, now: [_name(body), _ready(body), _age(body, now), *_containers(_spec(body).get("template"))],
        *("Name", "Ready", "Age", *_WIDE[:2]),
    ),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "nodes": _layout(
        _node,
        *("Name", "Status", "Roles", "Age", "Version"),
        *("*Internal-IP", "*External-IP", "*OS-Image", "*Kernel-Version", "*Container-Runtime"),
    ),
    "services": _layout(_service, "Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"),
    "persistentvolumeclaims": _layout(
        _claim, "Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age", "*VolumeMode"
    ),
    "resourcequotas": _layout(_quota, "Name", "Age", "Request", "Limit"),
    "networkpolicies.networking.k8s.io": _layout(
        _row(lambda body: selectors.spelled(_spec(body).get("podSelector")) or "<none>"), "Name", "Pod-Selector", "Age"
    ),
    "priorityclasses.scheduling.k8s.io": _layout(
        _row(lambda body: body["value"], lambda body: bool(body.get("globalDefault"))),
        *("Name", "Value:integer", "Global-Default:boolean", "Age"),
    ),
    "endpoints": _layout(_row(_endpoints), "Name", "Endpoints", "Age"),
    "namespaces": _layout(_row(lambda body: _status(body).get("phase", "")), "Name", "Status", "Age"),
    "secrets": _layout(_row(lambda body: body.get("type", ""), _data), "Name", "Type", "Data", "Age"),
    "configmaps": _layout(_row(_data), "Name", "Data", "Age"),
    "serviceaccounts": _layout(_row(lambda body: len(body.get("secrets") or ())), "Name", "Secrets", "Age"),
    "leases.coordination.k8s.io": _layout(
        _row(lambda body: _spec(body).get("holderIdentity", "")), "Name", "Holder", "Age"
    ),
    "customresourcedefinitions.apiextensions.k8s.io": _layout(
        lambda body, _now: [_name(body), body["metadata"].get("creationTimestamp")], "Name", "Created At:date"
    ),
}
