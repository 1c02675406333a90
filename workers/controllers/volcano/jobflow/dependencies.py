"""The dependencies of an entry: the verdict that starts or skips it, by the ends of its targets."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from workers.api.volcano.jobflow import FlowEntry, JobFlowSpec
from workers.controllers.volcano.jobflow.node_progress import COMPLETED, ENDS, FAILED, SKIPPED, TERMINATED, Track


class DependencyState(Enum):
    """The verdict on an entry that has not started."""

    WAIT = "it may start later"
    START = "it may start"
    SKIP = "what it waits for cannot happen any more"


def outcome(tracks: Iterable[Track]) -> str | None:
    """Returns the end of an entry with all its items; None before."""
    members = tuple(tracks)
    if len(members) == 1:
        # Most entries have one node, and a long flow asks for many of them.
        return members[0].phase if members[0].phase in ENDS else None
    phases = set()
    for track in members:
        if not track.over:
            return None
        phases.add(track.phase)
    if phases == {SKIPPED}:
        return SKIPPED
    return next((phase for phase in (FAILED, TERMINATED) if phase in phases), COMPLETED)


def wanted(entry: FlowEntry) -> tuple[str, ...]:
    """Returns the ends of its targets that let an entry start."""
    return entry.when.phases if entry.when else (COMPLETED,)


def verdict(entry: FlowEntry, outcomes: Mapping[str, str | None], answers: Callable[[str], bool]) -> DependencyState:
    """Returns the verdict. answers: tells if all probes of a target at work succeed."""
    if not (targets := entry.targets):
        return DependencyState.START
    phases = wanted(entry)
    met = [outcomes[name] in phases or (outcomes[name] is None and answers(name)) for name in targets]
    lost = [outcomes[name] is not None and outcomes[name] not in phases for name in targets]
    if entry.when and entry.when.match == "any":
        return DependencyState.START if any(met) else DependencyState.SKIP if all(lost) else DependencyState.WAIT
    return DependencyState.SKIP if any(lost) else DependencyState.START if all(met) else DependencyState.WAIT


def proves(entry: FlowEntry) -> bool:
    """Returns True if a Job of this entry proves that all its targets completed."""
    return entry.probe is None and wanted(entry) == (COMPLETED,) and not (entry.when and entry.when.match == "any")


def handled(spec: JobFlowSpec) -> frozenset[tuple[str, str]]:
    """Returns the ends (entry, phase) that another entry waits for: such a failure does not end the flow at once."""
    return frozenset((name, phase) for entry in spec.flows for name in entry.targets for phase in wanted(entry))
