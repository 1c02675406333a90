"""Validation of a JobFlow beyond its schema, for the webhook and for the controller."""

from collections import Counter
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter

from scheduler import cron
from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.api import model, names
from workers.api.kinds import JOB_FLOW, Object
from workers.api.model import Problems
from workers.api.volcano.jobflow import LARGEST, WIDEST, FlowEntry, ForEach, JobFlow, JobFlowSpec
from workers.flows import flow_expressions, flow_nodes

#: Longest name of a Job: pod names and labels contain it.
LONGEST = 63
#: Suffix of a scheduled flow's name: its minute, and its second if the schedule has seconds.
_MINUTE, _SECOND = "-29000000", "-59"


def problems(body: Object, old: Object | None, lookup: Lookup) -> list[Finding]:  # noqa: ARG001 - as rules are asked
    """Everything that is wrong with a flow. Templates may come later, so none is looked up.

    old: what it replaces. A flow whose spec stays may always be written.
    """
    if old is not None and old.get("spec") == body.get("spec"):
        return []
    try:
        spec = model.parse(JobFlow, JOB_FLOW, body).spec
    except Problems as error:
        return [Finding(problem.field, problem.message) for problem in error.found]
    return faults(body["metadata"].get("name") or "", spec)


def faults(name: str, spec: JobFlowSpec) -> list[Finding]:
    """Everything that is wrong with the spec of a flow of this name; of one that is too large, only that."""
    if (number := sum(1 for _ in flow_nodes.of(spec))) > LARGEST:
        return [Finding("spec.flows", f"{number} entries and items are more than the {LARGEST} that a flow may have")]
    found = [*_names(name, spec), *_dependencies(spec), *_clock(spec), *_parameters(spec)]
    known = frozenset(entry.name for entry in spec.flows)
    for place, entry in enumerate(spec.flows):
        found += _entry(f"spec.flows[{place}]", entry, spec, known)
    return found


def _names(name: str, spec: JobFlowSpec) -> Iterator[Finding]:
    counted = Counter(entry.name for entry in spec.flows)
    made = _jobs(name + _slot(spec), spec)
    owners: dict[str, str] = {}
    for place, entry in enumerate(spec.flows):
        field, own = f"spec.flows[{place}].name", made.get(entry.name, [])
        if counted[entry.name] > 1:
            yield Finding(field, f"{entry.name} is the name of {counted[entry.name]} entries")
            continue
        if other := next((owners[job] for job in own if job in owners), None):
            yield Finding(field, f"a Job of {entry.name} would be named like one of {other}")
        owners |= dict.fromkeys(own, entry.name)
        longest = max(own, key=len, default="")
        if len(longest) > LONGEST:
            yield Finding(field, f"the Job's name {longest} has {len(longest)} characters, {LONGEST} are possible")
        elif longest and (wrong := names.dns_subdomain(longest)):
            yield Finding(field, f"{longest} is no name of a Job: {wrong[0]}")


def _slot(spec: JobFlowSpec) -> str:
    """Returns the longest suffix that a schedule adds to the flow's name."""
    if not spec.schedule:
        return ""
    return _MINUTE + (_SECOND if spec.schedule.startswith("@every") else "")


def _jobs(flow: str, spec: JobFlowSpec) -> dict[str, list[str]]:
    """The names of all Jobs that each entry may have."""
    found: dict[str, list[str]] = {}
    for node in flow_nodes.of(spec):
        attempts = 1 + (node.entry.retry.limit if node.entry.retry else 0)
        found.setdefault(node.entry.name, []).extend(node.job(flow, each) for each in range(1, attempts + 1))
    return found


def _dependencies(spec: JobFlowSpec) -> Iterator[Finding]:
    known = {entry.name for entry in spec.flows}
    for place, entry in enumerate(spec.flows):
        field = f"spec.flows[{place}].dependsOn.targets"
        for target in entry.targets:
            if target == entry.name:
                yield Finding(field, f"{entry.name} depends on itself")
            elif target not in known:
                yield Finding(field, f"there is no entry {target}")
    graph = {entry.name: [each for each in entry.targets if each != entry.name] for entry in spec.flows}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield Finding("spec.flows", f"entries depend on each other in a circle: {' -> '.join(reversed(error.args[1]))}")


def _clock(spec: JobFlowSpec) -> Iterator[Finding]:
    if not spec.schedule:
        if spec.time_zone:
            yield Finding("spec.timeZone", "means nothing without a schedule")
        return
    try:
        cron.parse(spec.schedule, zone=spec.time_zone)
    except cron.ZoneError as error:
        yield Finding("spec.timeZone", str(error))
    except cron.CronError as error:
        yield Finding("spec.schedule", str(error))


def _parameters(spec: JobFlowSpec) -> Iterator[Finding]:
    for name in spec.parameters or ():
        if not name.isidentifier() or not name.isascii():
            yield Finding(f"spec.parameters[{name}]", "must be a name of a variable: letters, digits and _")


def _entry(field: str, entry: FlowEntry, spec: JobFlowSpec, known: Collection[str]) -> Iterator[Finding]:
    parameters = spec.parameters or {}
    texts = {"if": entry.if_, "switch.of": entry.switch.of if entry.switch else None}
    for key, text in texts.items():
        if text is not None and (wrong := flow_expressions.problem(text, parameters, known)):
            yield Finding(f"{field}.{key}", wrong)
    if entry.patch and (wrong := flow_expressions.patch_problem(entry.patch.job_spec, parameters, known)):
        yield Finding(f"{field}.patch.jobSpec", wrong)
    if entry.probe and not entry.targets:
        yield Finding(f"{field}.dependsOn.probe", "needs targets to ask")
    if entry.when and not entry.targets:
        yield Finding(f"{field}.when", "needs targets that end")
    if entry.for_each:
        yield from _fan_out(f"{field}.forEach", entry.for_each, spec, parameters)


def _fan_out(field: str, each: ForEach, spec: JobFlowSpec, parameters: Collection[str]) -> Iterator[Finding]:
    if sum(given is not None for given in (each.items, each.parameter, each.count)) != 1:
        yield Finding(field, "needs one of items, parameter and count")
    elif each.parameter is not None and each.parameter not in parameters:
        yield Finding(f"{field}.parameter", f"there is no parameter {each.parameter}")
    elif (number := len(flow_nodes.items(each, spec))) > WIDEST:
        yield Finding(field, f"{number} items are more than the {WIDEST} that an entry may have")
