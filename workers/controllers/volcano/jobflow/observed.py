"""What a decision on a flow sees: its entries, how far each of them is, and what else it was given to look at."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from workers.api.kinds import JOB_TEMPLATE, VC_JOB, Object, Ref
from workers.api.volcano.jobflow import RETRY, FlowEntry, JobFlowSpec
from workers.controllers.volcano.jobflow import graph, phases, tracks
from workers.controllers.volcano.jobflow.graph import Graph
from workers.controllers.volcano.jobflow.tracks import COMPLETED, Track
from workers.errors import UserError
from workers.flows.nodes import FlowNode
from workers.reconcile.snapshot import Snapshot

#: Phases of a Job that does nothing any more by itself.
_RESTING = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


@dataclass(frozen=True)
class ObservedFlow:
    """One flow as it is now."""

    snapshot: Snapshot
    body: Object
    graph: Graph
    now: datetime

    @property
    def spec(self) -> JobFlowSpec:
        """As its author wrote it."""
        return self.graph.spec

    @property
    def name(self) -> str:
        """The flow's."""
        return str(self.body["metadata"]["name"])

    @cached_property
    def status(self) -> Object:
        """As it was written last."""
        return dict(self.body.get("status") or {})

    @property
    def written(self) -> Mapping[str, Object]:
        """What is written down of each node, by its id."""
        return self.status.get("entries") or {}

    @property
    def nodes(self) -> tuple[FlowNode, ...]:
        """Everything the flow runs."""
        return self.graph.nodes

    @property
    def members(self) -> Mapping[str, tuple[FlowNode, ...]]:
        """The nodes of each entry."""
        return self.graph.members

    @cached_property
    def jobs(self) -> Mapping[str, Object]:
        """The flow's Jobs that are there, by name."""
        entries = self.snapshot.children.get(VC_JOB.id, ())
        return {entry.ref.name: entry.body for entry in entries if entry.body is not None}

    @cached_property
    def gone(self) -> frozenset[str]:
        """Names of the flow's Jobs that were deleted lately."""
        return frozenset(entry.ref.name for entry in self.snapshot.children.get(VC_JOB.id, ()) if entry.gone)

    def live(self, track: Track) -> Object | None:
        """The Job of a node that has not ended."""
        return self.jobs.get(track.job or "") if track.live else None

    def left_over(self, known: Mapping[str, Track]) -> list[Object]:
        """Jobs at work of entries that were taken out of the flow. known: how far each node is."""
        ours = {track.job for track in known.values()}
        return [
            job
            for name, job in self.jobs.items()
            if name not in ours
            and ((job.get("status") or {}).get("state") or {}).get("phase") not in _RESTING
            and not job["metadata"].get("deletionTimestamp")
        ]

    @property
    def settled(self) -> frozenset[str]:
        """Names of Jobs whose end is written down, one way or another: their nodes are over, or tried again."""
        found: set[str] = set()
        for node in self.nodes:
            track = self.remembered[node.id]
            ended = track.attempts if track.over or track.attempts == track.before else track.attempts - 1
            found.update(node.job(self.name, attempt) for attempt in range(1, ended + 1))
        return frozenset(found)

    def was_looked_for(self, name: str) -> bool:
        """Whether it is known if there is a JobTemplate of this name."""
        return Ref(JOB_TEMPLATE, self.body["metadata"]["namespace"], name) in self.snapshot.relatives

    def template(self, name: str) -> Object | None:
        """The JobTemplate of this name, None when there is none."""
        return self.snapshot.relatives.get(Ref(JOB_TEMPLATE, self.body["metadata"]["namespace"], name))

    @property
    def phase(self) -> str | None:
        """The flow's, as it was written last; of one that is to try again what failed, or had a schedule, none."""
        written = (self.status.get("state") or {}).get("phase")
        return None if self.tries_again or written == phases.SCHEDULED else written

    @property
    def token(self) -> str | None:
        """What asks for another try of what failed, whenever it changes."""
        return _token(self.body)

    @property
    def tries_again(self) -> bool:
        """Whether somebody asked for another try of a flow that ended badly."""
        ended = (self.status.get("state") or {}).get("phase") in (phases.FAILED, phases.TERMINATED)
        return ended and not self.spec.cancel and _asked(self.body)

    @cached_property
    def remembered(self) -> Mapping[str, Track]:
        """How far each node was when it was written down, by its id."""
        return {node.id: tracks.read(self.written.get(node.id)) for node in self.nodes}

    @cached_property
    def tracks(self) -> Mapping[str, Track]:
        """How far each node is, by its id."""
        found = self.remembered
        if self.tries_again:
            found = retried(self.graph, found)
        return {
            node.id: tracks.observed(node, found[node.id], self.name, self.jobs, self.gone, self.now)
            for node in self.nodes
        }


def relatives(body: Object) -> tuple[Ref, ...]:
    """What the decision must see beside the flow's Jobs: the templates of entries that may be about to start.

    Not those of all others: of what is not there it takes a while to be certain, and that is none of their business.
    """
    try:
        known = graph.of(body)
    except UserError:
        return ()
    status, namespace = body.get("status") or {}, body["metadata"]["namespace"]
    asked = _asked(body)
    if known.spec.schedule or ((status.get("state") or {}).get("phase") in phases.FINAL and not asked):
        return ()
    written = status.get("entries") or {}
    begun = {
        entry for entry, members in known.members.items() if not members or any(each.id in written for each in members)
    }
    names = (
        node.entry.source
        for node in known.nodes
        if asked or (written.get(node.id) or {}).get("phase") not in tracks.ENDS
        if _may_be_next(node.entry, begun)
    )
    return tuple(Ref(JOB_TEMPLATE, namespace, name) for name in dict.fromkeys(names))


def _may_be_next(entry: FlowEntry, begun: Collection[str]) -> bool:
    """Whether an entry may be about to start. begun: the entries of which something was made or decided."""
    if entry.when and entry.when.match == "any" and entry.targets:
        return any(target in begun for target in entry.targets)
    return all(target in begun for target in entry.targets)


def _token(body: Object) -> str | None:
    return (body["metadata"].get("annotations") or {}).get(RETRY) or None


def _asked(body: Object) -> bool:
    token = _token(body)
    return token is not None and token != (body.get("status") or {}).get("retried")


def retried(graph: Graph, known: Mapping[str, Track]) -> Mapping[str, Track]:
    """The tracks, by node, when another try begins."""
    replaced = _replaced(graph, known)
    return {
        node.id: _anew(known[node.id]) if node.entry.name in replaced else _tried(known[node.id])
        for node in graph.nodes
    }


def _replaced(graph: Graph, known: Mapping[str, Track]) -> frozenset[str]:
    """The entries that depend on one that failed or was terminated."""
    failed = {name for name, members in graph.members.items() if any(known[node.id].bad for node in members)}
    found: set[str] = set()
    for entry in graph.order:
        if any(target in failed or target in found for target in entry.targets):
            found.add(entry.name)
    return frozenset(found)


def _tried(track: Track) -> Track:
    """A track that begins again if it did not end well. Jobs that were made keep their names."""
    return track.anew() if track.over and track.phase != COMPLETED else track


def _anew(track: Track) -> Track:
    """A track that begins again, whatever became of it; one whose Job is at work, when that has ended."""
    if track.over or track.attempts == track.before:
        return track.anew()
    return replace(track, stale=True)
