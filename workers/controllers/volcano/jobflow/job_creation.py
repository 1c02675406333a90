"""The nodes that start now, the nodes that are skipped, and the probes that entries wait for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush

from workers.admission import findings
from workers.admission.volcano import job as admission
from workers.api.kinds import Object
from workers.api.volcano import jobflow
from workers.api.volcano.jobflow import FlowEntry, FlowProbe, TaskPhase
from workers.controllers.volcano.jobflow import dependencies, jobs, phases
from workers.controllers.volcano.jobflow import node_progress as tracks
from workers.controllers.volcano.jobflow.dependencies import DependencyState
from workers.controllers.volcano.jobflow.node_progress import Track
from workers.controllers.volcano.jobflow.observed import ObservedFlow
from workers.controllers.volcano.jobflow.progress import Tracks
from workers.decision.snapshot import Reading, TriggerSample
from workers.errors import UserError
from workers.flows import flow_expressions
from workers.flows.flow_expressions import FlowScope
from workers.flows.flow_nodes import FlowNode

#: Most Jobs created by one plan.
BATCH = 100
_DEPENDENCIES, _CONDITION = "DependenciesNotMet", "ConditionNotMet"


@dataclass
class StartRound:
    """The starts of one decision.

    tracks: by node id, after the starts. jobs: the manifests to create, in order. missing: JobTemplates that do not
    exist, each with one entry. more: further nodes may start in the next plan.
    """

    tracks: Tracks
    jobs: list[Object] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    more: bool = False


def decided(view: ObservedFlow) -> StartRound:
    """Returns the starts and skips of this decision."""
    result = StartRound(Tracks(view.tracks))
    outcomes = dict(view.stored.outcomes)
    able = [] if halted(view, result.tracks) else list(_able(view, result.tracks, outcomes))
    # Checked again: an expression without a result is a failure as well.
    if halted(view, result.tracks):
        # Pending retries are dropped.
        for id in result.tracks.among(tracks.RETRYING):
            track = result.tracks[id]
            result.tracks[id] = track.end(tracks.FAILED, view.now, track.reason, track.message)
    elif not view.spec.suspend:
        _start(view, able, outcomes, result)
    return result


def halted(view: ObservedFlow, known: Tracks) -> bool:
    """Returns True if nothing starts any more: the flow is over, cancelled or has failed."""
    return bool(view.spec.cancel) or view.phase in phases.FINAL or bool(fatal(view, known))


def fatal(view: ObservedFlow, known: Tracks) -> list[FlowNode]:
    """Returns the nodes whose failure ends the flow."""
    awaited = view.graph.awaited
    return [
        node
        for node in failed(view, known)
        if not node.entry.allow_failure and (node.entry.name, known[node.id].phase) not in awaited
    ]


def failed(view: ObservedFlow, known: Tracks) -> list[FlowNode]:
    """Returns the nodes that failed or were terminated."""
    return [view.graph.by_id[id] for id in known.among(tracks.FAILED, tracks.TERMINATED)]


def _able(view: ObservedFlow, known: Tracks, outcomes: dict[str, str | None]) -> Iterator[FlowNode]:
    """Yields the nodes that may start; skips others in `known`. outcomes: the stored ends of all entries, updated."""
    graph = view.graph
    changed = {graph.by_id[id].entry.name for id in known.changed}
    for name in changed:
        outcomes[name] = dependencies.outcome([known[node.id] for node in graph.members[name]])
    # Of other entries neither the progress nor that of their targets differs from the status, which lets none start.
    ranks = view.stored.able.union(
        (graph.ranks[name] for name in changed),
        (rank for name in changed for rank in graph.dependants[name]),
        (graph.ranks[entry.name] for entry in graph.probing),
    )
    waiting = sorted(ranks)
    while waiting:
        entry = graph.order[heappop(waiting)]
        if outcomes[entry.name] is not None:
            continue
        members = graph.members[entry.name]
        fresh = [node for node in members if known[node.id].phase is None]
        unmade = [node for node in fresh if not (known[node.id].lost or known[node.id].taken)]
        yield from (node for node in fresh if known[node.id].lost or known[node.id].taken)
        answers = partial(_answers, view, known, entry)
        match dependencies.verdict(entry, outcomes, answers) if unmade else DependencyState.WAIT:
            case DependencyState.SKIP:
                for node in unmade:
                    known[node.id] = known[node.id].end(tracks.SKIPPED, view.now, _DEPENDENCIES)
            case DependencyState.START:
                yield from _chosen(view, unmade, outcomes, known)
            case DependencyState.WAIT:
                pass
        yield from (
            node
            for node in members
            if known[node.id].phase == tracks.RETRYING and (known[node.id].retry_at or view.now) <= view.now
        )
        outcomes[entry.name] = dependencies.outcome([known[node.id] for node in members])
        if outcomes[entry.name] is not None:
            for rank in set(graph.dependants[entry.name]) - ranks:
                heappush(waiting, rank)
            ranks = ranks.union(graph.dependants[entry.name])


def _answers(view: ObservedFlow, known: Mapping[str, Track], entry: FlowEntry, target: str) -> bool:
    """Returns True if the entry's probes of a target at work succeed."""
    if entry.probe is None:
        return False
    there = _at_work(view, known, target)
    return len(there) == len(view.graph.members[target]) and probe_succeeds(entry.probe, there, view.snapshot.reading)


def unanswered(view: ObservedFlow, known: Mapping[str, Track]) -> Iterator[str]:
    """Yields a message for each entry whose probes do not succeed yet."""
    for entry in view.graph.probing:
        if entry.probe is None or any(known[node.id].phase for node in view.graph.members[entry.name]):
            continue
        asked = [
            text
            for target in entry.targets
            for text in failing_probes(entry.probe, _at_work(view, known, target), view.snapshot.reading)
        ]
        if asked:
            yield f"entry {entry.name} waits for {', '.join(asked)}"


def _at_work(view: ObservedFlow, known: Mapping[str, Track], target: str) -> list[Object]:
    """Returns the live Jobs of an entry."""
    made = [known[node.id].job or "" for node in view.graph.members[target] if known[node.id].live]
    return [view.jobs[name] for name in made if name in view.jobs]


def _chosen(
    view: ObservedFlow, waiting: list[FlowNode], outcomes: Mapping[str, str | None], known: Tracks
) -> Iterator[FlowNode]:
    """Yields the nodes whose conditions hold, of those whose dependencies are met."""
    for node in waiting:
        try:
            holds = _holds(view, node, outcomes)
        except UserError as error:
            known[node.id] = known[node.id].end(tracks.FAILED, view.now, "InvalidExpression", str(error))
            continue
        if holds:
            yield node
        else:
            known[node.id] = known[node.id].end(tracks.SKIPPED, view.now, _CONDITION)


def _holds(view: ObservedFlow, node: FlowNode, outcomes: Mapping[str, str | None]) -> bool:
    entry = node.entry
    if entry.switch is None and entry.if_ is None:
        return True
    values = scope(view, node, {name: outcomes.get(name) for name in view.graph.members})
    if entry.switch is not None:
        found = flow_expressions.value(entry.switch.of, values)
        branches = [each.switch for each in view.spec.flows if each.switch and each.switch.of == entry.switch.of]
        cases = entry.switch.case
        if cases is None and any(found in (branch.case or ()) for branch in branches):
            return False
        if cases is not None and found not in cases:
            return False
    return entry.if_ is None or flow_expressions.truth(entry.if_, values)


def scope(view: ObservedFlow, node: FlowNode, outcomes: Mapping[str, str | None]) -> FlowScope:
    """Returns the values of a node's references. outcomes: of all entries."""
    return FlowScope(view.name, view.spec.parameters or {}, outcomes, node.item, node.index)


def _start(view: ObservedFlow, able: list[FlowNode], outcomes: Mapping[str, str | None], result: StartRound) -> None:
    """Creates the Jobs of these nodes within the limits. outcomes: of all entries."""
    if not able:
        return
    known = result.tracks
    limits = {node.entry.name: node.entry.for_each.parallelism for node in able if node.entry.for_each}
    at_work = {
        name: sum(known[node.id].live for node in view.graph.members[name]) if limit is not None else 0
        for name, limit in limits.items()
    }
    total = known.live
    for node in sorted(able, key=lambda node: view.graph.places[node.id]):
        name = node.entry.name
        limit = limits.get(name)
        full = limit is not None and at_work[name] >= limit
        if full or (view.spec.parallelism or total + 1) <= total:
            continue
        if len(result.jobs) >= BATCH:
            result.more = True
            return
        if _make(view, node, result, scope(view, node, outcomes)):
            at_work[name] = at_work.get(name, 0) + 1
            total += 1


def _make(view: ObservedFlow, node: FlowNode, result: StartRound, values: FlowScope) -> bool:
    """Creates the Job of one node; returns False without one."""
    track, template = result.tracks[node.id], view.template(node.entry.source)
    if not view.was_looked_for(node.entry.source):
        result.more = True
        return False
    if template is None:
        result.missing.setdefault(node.entry.source, node.entry.name)
        return False
    name = node.job(view.name, track.next)
    try:
        job = jobs.build(view.body, node, name, template, values)
    except UserError as error:
        result.tracks[node.id] = track.end(tracks.FAILED, view.now, "InvalidPatch", str(error))
        return False
    if wrong := admission.faults(job):
        # Every attempt to create it would be refused.
        result.tracks[node.id] = track.end(tracks.FAILED, view.now, "InvalidJob", findings.joined(wrong))
        return False
    if track.lost and job["spec"].get("ttlSecondsAfterFinished") is not None:
        text = f"job {name} cleaned itself up before its end was seen; it is not run twice"
        result.tracks[node.id] = track.end(tracks.FAILED, view.now, "EndNotSeen", text)
        return False
    result.jobs.append(job)
    result.tracks[node.id] = replace(
        track,
        phase="Pending",
        job=name,
        attempts=track.next,
        started=None,
        retry_at=None,
        reason=None,
        message=None,
        lost=False,
    )
    return True


def probe_succeeds(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> bool:
    """Returns True if a probe succeeds for the Jobs of one target.

    A target without any of the probe's tasks never succeeds: it has to complete. Without a sample the answer is False.
    """
    verdicts = [holds for _, holds in _probe_results(probe, jobs, reading)]
    return bool(verdicts) and all(verdicts)


def failing_probes(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> list[str]:
    """Returns the parts of a probe that fail for the Jobs of one target."""
    return [name for name, holds in _probe_results(probe, jobs, reading) if not holds]


def questions(view: ObservedFlow, known: Mapping[str, Track]) -> Iterator[str]:
    """Yields the names of the samples that entries wait for. known: the tracks."""
    for entry in view.graph.probing:
        if entry.probe is None or all(known[node.id].phase for node in view.graph.members[entry.name]):
            continue
        targets = (node for target in entry.targets for node in view.graph.members[target])
        for job in filter(None, (view.live(known[node.id]) for node in targets)):
            tasks = {task.get("name") for task in job["spec"].get("tasks") or ()}
            asked = (each for each in entry.probe.asked if each.task_name in tasks)
            yield from (jobflow.probed(each, job["metadata"]["name"]) for each in asked)


def _probe_results(probe: FlowProbe, jobs: Sequence[Object], reading: Reading | None) -> Iterator[tuple[str, bool]]:
    samples = {sample.name: sample for sample in reading.samples} if reading else {}
    for job in jobs:
        yield from _job_results(probe, job, samples)


def _job_results(probe: FlowProbe, job: Object, samples: Mapping[str, TriggerSample]) -> Iterator[tuple[str, bool]]:
    """Yields each part of a probe of one Job with its result."""
    tasks = {task.get("name"): task for task in job["spec"].get("tasks") or ()}
    for asked in probe.asked:
        if asked.task_name in tasks:
            name = jobflow.probed(asked, job["metadata"]["name"])
            sample = samples.get(name)
            yield name, sample is not None and sample.error is None and sample.active
    for wanted in probe.task_status_list:
        if wanted.task_name in tasks:
            name = f"task {wanted.task_name} of {job['metadata']['name']} to be {wanted.phase}"
            yield name, _has_come_to(wanted, tasks[wanted.task_name], job)


def _has_come_to(wanted: TaskPhase, task: Object, job: Object) -> bool:
    """Returns True if as many pods of the task are in the phase as its gang has."""
    counted = ((job.get("status") or {}).get("taskStatusCount") or {}).get(wanted.task_name) or {}
    needed = task.get("minAvailable")
    needed = task.get("replicas") or 0 if needed is None else needed
    return bool(((counted.get("phase") or {}).get(wanted.phase) or 0) >= max(1, needed))
