"""Graphs: the nodes of a JobFlow with their states, and the tasks of a Volcano Job.

Pure.
"""

from collections.abc import Iterator, Mapping

from deploy.object_rows.row import Tone, because, count, spec_of, status_of
from workers.api import model
from workers.api.kinds import JOB_FLOW, VC_JOB, Kind, Object
from workers.api.volcano.jobflow import FlowEntry, JobFlow
from workers.flows import flow_nodes

#: Nodes of one answer.
MOST = 1_000
_TONES: Mapping[str, Tone] = {
    "": "waiting",
    "Waiting": "waiting",
    "Pending": "waiting",
    "Running": "active",
    "Completing": "active",
    "Completed": "ok",
    "Skipped": "paused",
    "Retrying": "warning",
    "Restarting": "warning",
    "Failed": "error",
    "Terminated": "error",
    "Aborted": "paused",
}


def drawn(kind: Kind, body: Object) -> Object | None:
    """Returns nodes and edges; None for a kind without a graph. Raises UserError for a malformed flow."""
    if kind.id == JOB_FLOW.id:
        return _flow(body)
    return _tasks(body) if kind.id == VC_JOB.id else None


def _flow(body: Object) -> Object:
    metadata = body["metadata"]
    spec = model.parse(JobFlow, JOB_FLOW, body).spec
    written = status_of(body).get("entries") or {}
    nodes: list[Object] = []
    members: dict[str, list[str]] = {}
    for node in flow_nodes.of(spec):
        track = written.get(node.id) or {}
        phase = str(track.get("phase") or "")
        members.setdefault(node.entry.name, []).append(node.id)
        job = track.get("job")
        item = "" if node.item is None else f" ({node.item})"
        nodes.append(
            {
                "id": node.id,
                "label": f"{node.entry.name}{item}",
                "state": phase or "Waiting",
                "tone": _TONES.get(phase, "active"),
                "detail": "; ".join(_details(node.entry, track)),
                "object": {"kind": VC_JOB.id, "namespace": metadata["namespace"], "name": job} if job else None,
            }
        )
        if len(nodes) >= MOST:
            break
    edges = [
        {"from": source, "to": target, "label": _label(entry)}
        for entry in spec.flows
        for target in members.get(entry.name, ())
        for before in entry.targets
        for source in members.get(before, ())
    ]
    return {"nodes": nodes, "edges": edges}


def _details(entry: FlowEntry, track: Object) -> Iterator[str]:
    if entry.if_:
        yield f"if {entry.if_}"
    if entry.switch:
        yield f"case {', '.join(entry.switch.case) if entry.switch.case else 'else'}"
    if count(track.get("attempts")) > 1:
        yield f"{track['attempts']} attempts"
    if why := because(track):
        yield why


def _label(entry: FlowEntry) -> str:
    """Returns the ends that let an entry start, where they are not completion."""
    if entry.when is None or (entry.when.phases == ("Completed",) and entry.when.match == "all"):
        return ""
    return f"{entry.when.match} {' or '.join(entry.when.phases)}"


def _tasks(body: Object) -> Object:
    counts = status_of(body).get("taskStatusCount") or {}
    nodes, edges = [], []
    tasks = [task for task in spec_of(body).get("tasks") or () if isinstance(task, dict)][:MOST]
    for place, task in enumerate(tasks):
        name = str(task.get("name") or f"default{place}")
        phases = {phase: count(number) for phase, number in ((counts.get(name) or {}).get("phase") or {}).items()}
        state, tone = _task_state(phases)
        pods = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()) if number)
        replicas = count(task.get("replicas"))
        detail = f"{replicas} replica{'' if replicas == 1 else 's'}: {pods or 'no pods'}"
        nodes.append({"id": name, "label": name, "state": state, "tone": tone, "detail": detail, "object": None})
        depends = task.get("dependsOn") or {}
        edges += [{"from": str(each), "to": name, "label": ""} for each in depends.get("name") or ()]
    known = {node["id"] for node in nodes}
    return {"nodes": nodes, "edges": [edge for edge in edges if edge["from"] in known]}


def _task_state(phases: Mapping[str, int]) -> tuple[str, Tone]:
    """Returns the state of a task from the number of its pods by phase: the worst first."""
    order: tuple[tuple[str, Tone], ...] = (
        ("Failed", "error"),
        ("Running", "active"),
        ("Pending", "waiting"),
        ("Succeeded", "ok"),
    )
    return next(((phase, tone) for phase, tone in order if phases.get(phase)), ("Waiting", "waiting"))
