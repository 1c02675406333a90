"""The observed view of a flow: its entries, its Jobs, and the track of every node.

A retry request restarts what did not succeed, and what depends on a failed entry even if that succeeded: its input is
replaced. A compensation runs once for every attempt that it compensates for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice

from workers.api.kinds import JOB_TEMPLATE, VC_JOB, Object, Ref
from workers.api.volcano.jobflow import RETRY, FlowEntry, JobFlowSpec
from workers.controllers.volcano.jobflow import dependencies, graph, phases, progress
from workers.controllers.volcano.jobflow import node_progress as tracks
from workers.controllers.volcano.jobflow.graph import Graph
from workers.controllers.volcano.jobflow.node_progress import COMPLETED, Track
from workers.controllers.volcano.jobflow.progress import StoredProgress, Tracks
from workers.decision.snapshot import Snapshot
from workers.errors import UserError
from workers.flows.flow_nodes import FlowNode

#: In a flow of more nodes, what existing Jobs prove is written with a delay: of a chain, every entry would cost a whole
#: status.
LONG = 200
#: Most templates that are read ahead of the stored status.
AHEAD = 32
#: Phases of a Job that is not at work.
_RESTING = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


@dataclass(frozen=True)
class ObservedFlow:
    """The view of one decision."""

    snapshot: Snapshot
    body: Object
    graph: Graph
    now: datetime

    @property
    def spec(self) -> JobFlowSpec:
        """The typed spec."""
        return self.graph.spec

    @property
    def name(self) -> str:
        """The flow's name."""
        return str(self.body["metadata"]["name"])

    @cached_property
    def status(self) -> Object:
        """The stored status."""
        return dict(self.body.get("status") or {})

    @property
    def written(self) -> Mapping[str, Object]:
        """The stored tracks by node id."""
        return self.status.get("entries") or {}

    @cached_property
    def jobs(self) -> Mapping[str, Object]:
        """The flow's existing Jobs by name."""
        return self.stored.jobs.living

    @cached_property
    def gone(self) -> frozenset[str]:
        """The names of Jobs deleted lately."""
        return self.stored.jobs.gone

    def live(self, track: Track) -> Object | None:
        """Returns the Job of a node that has not ended."""
        return self.jobs.get(track.job or "") if track.live else None

    def left_over(self, known: Tracks) -> list[Object]:
        """Returns live Jobs of entries removed from the flow. known: the tracks."""
        latest = self.stored.latest
        before = {latest[id].job for id in known.changed}
        others = self.stored.strangers | (self.jobs.keys() & before)
        others -= {known[id].job for id in known.changed}
        return [
            job
            for job in map(self.jobs.__getitem__, sorted(others))
            if ((job.get("status") or {}).get("state") or {}).get("phase") not in _RESTING
            and not job["metadata"].get("deletionTimestamp")
        ]

    @property
    def settled(self) -> frozenset[str]:
        """The names of Jobs whose end is stored: their nodes are over, or try again."""
        found: set[str] = set()
        for node in self.graph.nodes:
            track = self.remembered[node.id]
            ended = track.attempts if track.over or track.attempts == track.before else track.attempts - 1
            found.update(node.job(self.name, attempt) for attempt in range(1, ended + 1))
        return frozenset(found)

    def was_looked_for(self, name: str) -> bool:
        """Returns True if the JobTemplate of this name was observed, as present or absent."""
        ref = Ref(JOB_TEMPLATE, self.body["metadata"]["namespace"], name)
        # Of a template that was asked for ahead, absence is not proven.
        return self.snapshot.relatives.get(ref) is not None or ref in _templates_next(self.body, self.graph)

    def template(self, name: str) -> Object | None:
        """Returns the JobTemplate of this name, None without one."""
        return self.snapshot.relatives.get(Ref(JOB_TEMPLATE, self.body["metadata"]["namespace"], name))

    @property
    def phase(self) -> str | None:
        """The stored phase; None for a flow that tries again or had a schedule."""
        written = (self.status.get("state") or {}).get("phase")
        return None if self.tries_again or written == phases.SCHEDULED else written

    @property
    def token(self) -> str | None:
        """The retry request: every new value asks for another try."""
        return _token(self.body)

    @property
    def tries_again(self) -> bool:
        """True if another try of a failed flow is requested."""
        ended = (self.status.get("state") or {}).get("phase") in (phases.FAILED, phases.TERMINATED)
        return ended and not self.spec.cancel and _asked(self.body)

    @cached_property
    def stored(self) -> StoredProgress:
        """The conclusions from the stored tracks, and from the Jobs that are observed now."""
        found = progress.stored(self.name, self.body["metadata"]["uid"], self.graph, self.status)
        found.observe(self.graph, self.snapshot.children.get(VC_JOB.id, ()))
        return found

    @property
    def remembered(self) -> Mapping[str, Track]:
        """The stored track of each node."""
        return self.stored.tracks

    @cached_property
    def tracks(self) -> Tracks:
        """The observed track of each node."""
        if self.tries_again:
            again = retried(self.graph, self.remembered)
            found, nodes = Tracks(again, again), self.graph.nodes
        else:
            stored = self.stored
            found = Tracks(stored.latest)
            begun = [node for node in stored.begun if node.id not in stored.ended]
            nodes = (*begun, *map(stored.fresh.__getitem__, sorted(stored.begun_since)))
        for node in nodes:
            track = tracks.observed(node, found[node.id], self.name, self.jobs, self.gone, self.now)
            if track is not found[node.id]:
                found[node.id] = track
        if not self.tries_again:
            self._remember_ends(found)
        self._complete_proven(found)
        return found

    @property
    def differing(self) -> set[str]:
        """The ids of the nodes whose tracks may differ from the stored ones."""
        return self.tracks.changed | (set() if self.tries_again else self.stored.ended.keys())

    def _remember_ends(self, known: Tracks) -> None:
        """Lets the next decision begin with the ends that Jobs themselves tell."""
        ended = []
        for id in known.changed:
            track = known[id]
            job = self.jobs.get(track.job or "") if track.over else None
            if job is not None and _has_times(job):
                ended.append((id, job, track, self.graph.by_id[id].job(self.name, track.attempts + 1)))
        self.stored.end(self.graph, ended)

    def _complete_proven(self, known: Tracks) -> None:
        """Completes nodes whose Jobs were deleted after they completed, and before the status had their ends.

        Such an end waits to be written only while Jobs that were created after it prove it (`is_proven`).
        """
        if not self.gone:
            return
        fresh = self.stored.fresh
        lost = [self.graph.by_id[id] for id in known.changed if known[id].lost]
        for node in (*lost, *(fresh[name] for name in fresh.keys() & self.gone)):
            track = known[node.id]
            if not track.over and not track.before and track.attempts <= 1 and self.is_proven(node):
                job = node.job(self.name, 1)
                known[node.id] = replace(track, job=job, attempts=1).end(COMPLETED, self.now)

    def is_proven(self, node: FlowNode, made: Collection[str] = ()) -> bool:
        """Returns True if a Job that the status does not have yet proves that this node completed.

        made: names of Jobs that this decision creates.
        """
        for rank in self.graph.dependants[node.entry.name]:
            entry = self.graph.order[rank]
            for each in self.graph.members[entry.name] if dependencies.proves(entry) else ():
                name = each.job(self.name, 1)
                if not self.remembered[each.id].attempts and (name in made or name in self.jobs or name in self.gone):
                    return True
        return False


def _has_times(job: Object) -> bool:
    """Returns True if the Job itself says when it was created and when it ended."""
    return bool(job["metadata"].get("creationTimestamp") and job["status"]["state"].get("lastTransitionTime"))


def relatives(body: Object) -> tuple[Ref, ...]:
    """Returns the templates of entries that may start soon.

    Other templates are left out: proving that a template is absent takes time, and would delay the flow needlessly.
    """
    try:
        return _templates_next(body, graph.of(body))
    except UserError:
        return ()


def has_probes(body: Object) -> bool:
    """Returns True if an entry waits for probes, whose answers are in the reading."""
    try:
        return bool(graph.of(body).probing)
    except UserError:
        return False


def templates_ahead(body: Object) -> tuple[Ref, ...]:
    """Returns the templates of further entries that may start before the status of a long flow is written next.

    They are read if they are there. That one is absent is found out when its entry is next in the stored status.
    """
    try:
        known = graph.of(body)
    except UserError:
        return ()
    if len(known.nodes) <= LONG or len(known.sources) == 1 or not (soon := _templates_next(body, known)):
        return ()
    metadata = body["metadata"]
    found = progress.stored(metadata["name"], metadata["uid"], known, body.get("status") or {})
    if not found.ahead:
        waiting = dict.fromkeys(entry.source for entry in known.order if found.outcomes[entry.name] is None)
        further = waiting.keys() - {ref.name for ref in soon}
        names = islice((name for name in waiting if name in further), AHEAD)
        found.ahead.extend(Ref(JOB_TEMPLATE, metadata["namespace"], name) for name in names)
    return tuple(found.ahead)


def _templates_next(body: Object, known: Graph) -> tuple[Ref, ...]:
    """Returns the templates of the entries that are next in the stored status."""
    status, namespace = body.get("status") or {}, body["metadata"]["namespace"]
    asked = _asked(body)
    if known.spec.schedule or ((status.get("state") or {}).get("phase") in phases.FINAL and not asked):
        return ()
    found = progress.stored(body["metadata"]["name"], body["metadata"]["uid"], known, status)
    if asked not in found.templates:
        written = status.get("entries") or {}
        begun = {entry for entry, each in known.members.items() if not each or any(node.id in written for node in each)}
        names = (
            node.entry.source
            for node in known.nodes
            if asked or not found.tracks[node.id].over
            if _may_be_next(node.entry, begun)
        )
        found.templates[asked] = tuple(Ref(JOB_TEMPLATE, namespace, name) for name in dict.fromkeys(names))
    return found.templates[asked]


def _may_be_next(entry: FlowEntry, begun: Collection[str]) -> bool:
    """Returns True if an entry may start soon. begun: entries with a track."""
    if entry.when and entry.when.match == "any" and entry.targets:
        return any(target in begun for target in entry.targets)
    return all(target in begun for target in entry.targets)


def _token(body: Object) -> str | None:
    return (body["metadata"].get("annotations") or {}).get(RETRY) or None


def _asked(body: Object) -> bool:
    token = _token(body)
    return token is not None and token != (body.get("status") or {}).get("retried")


def retried(graph: Graph, known: Mapping[str, Track]) -> Mapping[str, Track]:
    """Returns the tracks at the start of another try."""
    replaced = _replaced(graph, known)
    return {
        node.id: _anew(known[node.id]) if node.entry.name in replaced else _tried(known[node.id])
        for node in graph.nodes
    }


def _replaced(graph: Graph, known: Mapping[str, Track]) -> frozenset[str]:
    """Returns the entries that depend on a failed or terminated one."""
    failed = {name for name, members in graph.members.items() if any(known[node.id].bad for node in members)}
    found: set[str] = set()
    for entry in graph.order:
        if any(target in failed or target in found for target in entry.targets):
            found.add(entry.name)
    return frozenset(found)


def _tried(track: Track) -> Track:
    """Restarts a track that did not complete. Created Jobs keep their names."""
    return track.anew() if track.over and track.phase != COMPLETED else track


def _anew(track: Track) -> Track:
    """Restarts a track; one with a live Job restarts when that ends."""
    if track.over or track.attempts == track.before:
        return track.anew()
    return replace(track, stale=True)
