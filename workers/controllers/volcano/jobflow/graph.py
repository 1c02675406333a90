"""The graph of a flow, derived from its manifest alone and cached.

A flow of a thousand entries is reconciled a thousand times, and its manifest seldom changes meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import TopologicalSorter

import orjson

from workers.admission import findings
from workers.admission.volcano import jobflow as admission
from workers.api.kinds import Object
from workers.api.volcano import jobflow as manifest
from workers.api.volcano.jobflow import FlowEntry, JobFlowSpec
from workers.controllers.volcano.jobflow import dependencies
from workers.errors import UserError
from workers.flows import flow_nodes as nodes
from workers.flows.flow_nodes import FlowNode

#: Cached manifests; a large one takes some megabytes.
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Graph:
    """The entries of a flow and their dependencies.

    nodes: everything to run; members: by entry; by_id; places: by id, in `nodes`. order: topological; ranks: the
    places of entries in it; dependants: of each entry, the ranks of those that wait for it. awaited: the ends (entry,
    phase) that another entry waits for. probing: the entries with probes. limits: `timeoutSeconds` by node id.
    sources: the names of its JobTemplates.
    """

    spec: JobFlowSpec
    nodes: tuple[FlowNode, ...]
    members: Mapping[str, tuple[FlowNode, ...]]
    order: tuple[FlowEntry, ...]
    awaited: frozenset[tuple[str, str]]
    probing: tuple[FlowEntry, ...]
    by_id: Mapping[str, FlowNode]
    places: Mapping[str, int]
    ranks: Mapping[str, int]
    dependants: Mapping[str, tuple[int, ...]]
    limits: Mapping[str, int]
    sources: frozenset[str]


def of(body: Object) -> Graph:
    """Returns the graph of a flow. Raises UserError for an invalid manifest."""
    metadata = body["metadata"]
    address, spec = (metadata["namespace"], metadata["name"]), body.get("spec")
    known = _LAST.get(address)
    if known is not None and known[0] is spec:
        return known[1]
    found = _read(*address, orjson.dumps(spec))
    if len(_LAST) >= _KEPT:
        _LAST.clear()
    _LAST[address] = spec, found
    return found


#: By namespace and name: the spec, compared by identity, and its graph. A decision asks three times, and to encode a
#: thousand entries each time took half of it.
_LAST: dict[tuple[str, str], tuple[Object | None, Graph]] = {}


@lru_cache(_KEPT)
def _read(namespace: str, name: str, written: bytes) -> Graph:
    content = orjson.loads(written)
    body = {"metadata": {"namespace": namespace, "name": name}, **({} if content is None else {"spec": content})}
    spec = manifest.parse(body).spec
    if wrong := admission.faults(name, spec):
        raise UserError(findings.joined(wrong))
    by_name = {entry.name: entry for entry in spec.flows}
    sorter = TopologicalSorter({entry.name: entry.targets for entry in spec.flows})
    members: dict[str, list[FlowNode]] = {entry.name: [] for entry in spec.flows}
    found = tuple(nodes.of(spec))
    for node in found:
        members[node.entry.name].append(node)
    order = tuple(by_name[entry] for entry in sorter.static_order())
    dependants: dict[str, list[int]] = {entry.name: [] for entry in spec.flows}
    for rank, entry in enumerate(order):
        for target in entry.targets:
            dependants[target].append(rank)
    return Graph(
        spec=spec,
        nodes=found,
        members={entry: tuple(of_entry) for entry, of_entry in members.items()},
        order=order,
        awaited=dependencies.handled(spec),
        probing=tuple(entry for entry in spec.flows if entry.probe),
        by_id={node.id: node for node in found},
        places={node.id: place for place, node in enumerate(found)},
        ranks={entry.name: rank for rank, entry in enumerate(order)},
        dependants={entry: tuple(ranks) for entry, ranks in dependants.items()},
        limits={node.id: node.entry.timeout_seconds for node in found if node.entry.timeout_seconds},
        sources=frozenset(entry.source for entry in spec.flows),
    )
