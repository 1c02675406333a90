"""The tracks of all nodes, and what follows from the stored ones: computed once per stored status.

A flow of a thousand entries is decided on a thousand times, and few entries and Jobs differ from one decision to the
next. A decision copies what follows from the status and looks at the nodes that differ from it, and at the Jobs that
have changed since the last decision.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from workers.api.kinds import Object, Ref
from workers.controllers.volcano.jobflow import dependencies
from workers.controllers.volcano.jobflow import node_progress as tracks
from workers.controllers.volcano.jobflow.dependencies import DependencyState
from workers.controllers.volcano.jobflow.graph import Graph
from workers.controllers.volcano.jobflow.node_progress import Track
from workers.decision.snapshot import CachedObject
from workers.flows.flow_nodes import FlowNode

#: Flows whose progress a process caches.
_KEPT = 32


class Tracks(dict[str, Track]):
    """Tracks by node id.

    phases: nodes by phase. changed: ids of the nodes that may differ from the stored tracks and the ends known since.
    """

    def __init__(self, known: Mapping[str, Track], changed: Iterable[str] = ()) -> None:
        super().__init__(known)
        known_phases = known.phases if isinstance(known, Tracks) else (track.phase for track in known.values())
        self.phases: Counter[str | None] = Counter(known_phases)
        self.changed: set[str] = set(known.changed if isinstance(known, Tracks) else changed)

    def __setitem__(self, id: str, track: Track) -> None:
        self.settle(id, track)
        self.changed.add(id)

    def settle(self, id: str, track: Track) -> None:
        """Replaces a track of which later decisions start: it does not count as changed."""
        self.phases[self[id].phase] -= 1
        self.phases[track.phase] += 1
        super().__setitem__(id, track)

    def number(self, phases: Iterable[str | None]) -> int:
        """Returns the number of nodes in one of these phases."""
        return sum(self.phases[phase] for phase in phases)

    def among(self, *phases: str) -> list[str]:
        """Returns the ids of the nodes in one of these phases."""
        return [id for id, track in self.items() if track.phase in phases] if self.number(phases) else []

    @property
    def over(self) -> int:
        """The number of nodes that have ended."""
        return self.number(tracks.ENDS)

    @property
    def live(self) -> int:
        """The number of nodes whose Jobs have not ended."""
        return len(self) - self.over - self.number((None, tracks.RETRYING))


@dataclass(slots=True)
class KnownJobs:
    """The Jobs of one flow as the last decision observed them.

    living: by name. gone: names of those deleted lately. Later decisions replace both and change neither.
    """

    living: Mapping[str, Object] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    #: By identity: they are kept, so that no other entry can have the same one.
    _entries: Mapping[int, CachedObject] = field(default_factory=dict)

    def take(self, entries: Sequence[CachedObject]) -> frozenset[str]:
        """Replaces what is known by these. Returns the names of the Jobs that came, changed or went since."""
        found = dict(zip(map(id, entries), entries, strict=True))
        new = [found[key] for key in found.keys() - self._entries.keys()]
        former = [self._entries[key] for key in self._entries.keys() - found.keys()]
        if not new and not former:
            return frozenset()
        changed = frozenset(entry.ref.name for entry in (*former, *new))
        living = dict(self.living)
        for name in changed:
            living.pop(name, None)
        self.living = living | {entry.ref.name: entry.body for entry in new if entry.body is not None}
        self.gone = (self.gone - changed) | {entry.ref.name for entry in new if entry.body is None}
        self._entries = found
        return changed


@dataclass(frozen=True, slots=True)
class StoredProgress:
    """The conclusions from the stored tracks.

    begun: nodes with a Job that have not ended. fresh: nodes that never had one, by the name of their first Job.

    jobs: as the last decision observed them. Of them, by name: begun_since, first Jobs of `fresh` nodes whose ends are
    not in `ended`; strangers, those that no track names; uncompared, those that changed since the last decision that
    compared them with the conditions of the status; missing, those that only the conditions have; differing, those that
    do not have the conditions of the status, each with the time of its last transition.

    What decisions found out about Jobs, which stays true while their bodies are the same objects: ended, by node id,
    the Job, the track that follows from its end, and the name of the next attempt's Job; proving, the node ids of
    `ended` by either name; found_again, ids of nodes whose end a later Job, which exists or was deleted lately, proves.

    What follows from the stored tracks and these ends, for a decision to begin with: latest, the tracks; outcomes, by
    entry; able, places, in the graph's order, of the entries that they let start, skip or try again; named, names of
    the Jobs that they name.

    templates: the JobTemplates of the entries that may start next, with or without a retry request. ahead: those of
    entries that follow them.
    """

    tracks: Tracks
    latest: Tracks
    outcomes: dict[str, str | None]
    begun: tuple[FlowNode, ...]
    fresh: Mapping[str, FlowNode]
    able: set[int]
    named: set[str]
    jobs: KnownJobs = field(default_factory=KnownJobs)
    begun_since: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    uncompared: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    differing: dict[str, datetime] = field(default_factory=dict)
    ended: dict[str, tuple[Object, Track, str]] = field(default_factory=dict)
    proving: dict[str, str] = field(default_factory=dict)
    found_again: set[str] = field(default_factory=set)
    templates: dict[bool, tuple[Ref, ...]] = field(default_factory=dict)
    ahead: list[Ref] = field(default_factory=list)

    def observe(self, graph: Graph, entries: Sequence[CachedObject]) -> None:
        """Takes the flow's Jobs in.

        Forgets the ends of Jobs that are other objects by now, and those of which a next attempt exists.
        """
        changed = self.jobs.take(entries)
        self.uncompared.update(changed)
        jobs, reopened = self.jobs.living, list[str]()
        for id in {self.proving[name] for name in changed if name in self.proving}:
            job, track, following = self.ended[id]
            if jobs.get(track.job or "") is not job or following in jobs:
                del self.ended[id]
                self.proving.pop(track.job or "", None)
                self.proving.pop(following, None)
                self.found_again.discard(id)
                reopened.append(id)
        self._classify(changed)
        self._settle(graph, reopened)

    def end(self, graph: Graph, ends: Collection[tuple[str, Object, Track, str]]) -> None:
        """Remembers ends that Jobs themselves tell: each a node id, the Job, its track, and the next attempt's name."""
        for id, job, track, following in ends:
            self.ended[id] = job, track, following
            self.proving[track.job or ""] = self.proving[following] = id
        self._settle(graph, [id for id, *_ in ends])

    def _settle(self, graph: Graph, changed: Iterable[str]) -> None:
        """Draws the conclusions from ends that became known, or were forgotten, of these nodes."""
        entries = set()
        for id in changed:
            before, track = self.latest[id], self.ended[id][1] if id in self.ended else self.tracks[id]
            names = {name for name in (before.job, track.job) if name}
            self.named.difference_update(names)
            self.named.update((track.job,) if track.job else ())
            self._classify(names)
            self.latest.settle(id, track)
            entries.add(graph.by_id[id].entry.name)
        for name in entries:
            self.outcomes[name] = dependencies.outcome([self.latest[node.id] for node in graph.members[name]])
            self.able.update(graph.dependants[name], (graph.ranks[name],))
        if entries:
            finished = [rank for rank in self.able if self.outcomes[graph.order[rank].name] is not None]
            self.able.difference_update(finished)

    def _classify(self, names: Iterable[str]) -> None:
        """Finds out anew of Jobs of these names whether they are begun since, or strangers."""
        names = set(names)
        living = {name for name in names if name in self.jobs.living}
        self.begun_since.difference_update(names)
        self.begun_since.update(name for name in living if name in self.fresh and name not in self.proving)
        self.strangers.difference_update(names)
        self.strangers.update(living - self.named)


def stored(flow: str, uid: str, graph: Graph, status: Object) -> StoredProgress:
    """Returns what follows from the tracks in the status of a flow."""
    sources = (graph, status.get("entries"), status.get("conditions"))
    before, found = _CACHE.pop(uid, ((), None))
    if found is None or any(old is not new for old, new in zip(before, sources, strict=True)):
        found = _read(flow, graph, status.get("entries") or {})
        found.uncompared.update(status.get("conditions") or ())
    _CACHE[uid] = sources, found
    if len(_CACHE) > _KEPT:
        _CACHE.popitem(last=False)
    return found


#: By uid of the flow: what the progress was computed from, compared by identity, and the progress.
_CACHE: OrderedDict[str, tuple[tuple[object, ...], StoredProgress]] = OrderedDict()


def _read(flow: str, graph: Graph, written: Mapping[str, Object]) -> StoredProgress:
    known = Tracks({node.id: tracks.read(written.get(node.id)) for node in graph.nodes})
    outcomes = {
        name: dependencies.outcome([known[node.id] for node in members]) for name, members in graph.members.items()
    }
    waiting = [node for node in graph.nodes if not known[node.id].over]
    return StoredProgress(
        tracks=known,
        latest=Tracks(known),
        outcomes=outcomes,
        begun=tuple(node for node in waiting if known[node.id].attempts or known[node.id].phase),
        fresh={node.job(flow, 1): node for node in waiting if not (known[node.id].attempts or known[node.id].phase)},
        able=set(_able(graph, known, outcomes, lambda _: False)),
        named={track.job for track in known.values() if track.job},
    )


def _able(
    graph: Graph, known: Tracks, outcomes: Mapping[str, str | None], answers: Callable[[str], bool]
) -> Iterable[int]:
    for place, entry in enumerate(graph.order):
        if outcomes[entry.name] is not None:
            continue
        retrying = any(known[node.id].phase == tracks.RETRYING for node in graph.members[entry.name])
        if retrying or dependencies.verdict(entry, outcomes, answers) is not DependencyState.WAIT:
            yield place
