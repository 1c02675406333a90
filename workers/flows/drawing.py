"""A flow as text: every entry below its dependencies, with its progress."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from workers.api import model
from workers.api.kinds import JOB_FLOW, Object
from workers.api.volcano.jobflow import FlowEntry, JobFlow, JobFlowSpec
from workers.errors import UserError
from workers.flows import flow_nodes

_MARKS: Mapping[str, str] = {
    "Completed": "+",
    "Failed": "x",
    "Terminated": "x",
    "Skipped": "-",
    "Retrying": "~",
    "": ".",
}
#: Mark of all other phases.
_AT_WORK = "*"


def graph(flow: Object) -> str:
    """Returns lines such as ``* train  Running  after fetch``, indented by depth.

    Entries of a flow with a cycle are listed in the order of the manifest.
    """
    try:
        spec = model.parse(JobFlow, JOB_FLOW, flow).spec
    except UserError as error:
        return str(error)
    written = (flow.get("status") or {}).get("entries") or {}
    depths = _depths(spec)
    places = {entry.name: place for place, entry in enumerate(spec.flows)}
    ordered = sorted(spec.flows, key=lambda entry: (depths[entry.name], places[entry.name]))
    members = {entry.name: [node.id for node in flow_nodes.of(spec) if node.entry is entry] for entry in spec.flows}
    titles = {entry.name: "  " * depths[entry.name] for entry in ordered}
    width = max((len(titles[entry.name] + entry.name) for entry in ordered), default=0)
    lines = (_line(entry, [written.get(id) or {} for id in members[entry.name]], titles, width) for entry in ordered)
    return "\n".join(lines)


def _depths(spec: JobFlowSpec) -> dict[str, int]:
    """Returns the length of the longest path to each entry; 0 for all where there is a cycle."""
    targets = {entry.name: entry.targets for entry in spec.flows}
    depths: dict[str, int] = {}
    try:
        for name in TopologicalSorter(targets).static_order():
            depths[name] = max((depths[target] + 1 for target in targets.get(name, ())), default=0)
    except CycleError:
        return dict.fromkeys(targets, 0)
    return depths


def _line(entry: FlowEntry, tracks: list[Object], titles: Mapping[str, str], width: int) -> str:
    phases = [track.get("phase") or "" for track in tracks]
    first = phases[0] if len(set(phases)) == 1 else _AT_WORK
    mark = _MARKS.get(first, _AT_WORK)
    name = f"{titles[entry.name]}{entry.name}".ljust(width)
    details = "  ".join(part for part in (_progress(phases), *_rest(entry, tracks)) if part)
    return f"{mark} {name}  {details}".rstrip()


def _progress(phases: list[str]) -> str:
    """Returns the phase, or the number of items by phase."""
    if len(phases) == 1:
        return phases[0] or "Waiting"
    counted = {phase: phases.count(phase) for phase in dict.fromkeys(phases)}
    return ", ".join(f"{number} {phase or 'Waiting'}" for phase, number in counted.items()) or "no items"


def _rest(entry: FlowEntry, tracks: list[Object]) -> Iterator[str]:
    if entry.targets:
        ends = f" {' or '.join(entry.when.phases)}" if entry.when else ""
        joint = " or " if entry.when and entry.when.match == "any" else ", "
        yield f"after {joint.join(entry.targets)}{ends}"
    if entry.if_:
        yield f"if {entry.if_}"
    if entry.switch:
        yield f"case {', '.join(entry.switch.case) if entry.switch.case else 'else'}"
    for track in tracks[:1]:
        if (track.get("attempts") or 0) > 1:
            yield f"{track['attempts']} attempts"
        if track.get("reason"):
            yield f"({track['reason']})"
