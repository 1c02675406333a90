"""What another try of a flow that ended badly runs again.

What did not end well begins anew, and so does what depends on something that failed, however well it ended: it was
about the attempt that is replaced now. A compensation runs once for every attempt that it is to compensate for.
"""

from collections.abc import Mapping
from dataclasses import replace

from workers.controllers.volcano.jobflow.graph import Graph
from workers.controllers.volcano.jobflow.tracks import COMPLETED, Track


def begun(graph: Graph, known: Mapping[str, Track]) -> Mapping[str, Track]:
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
