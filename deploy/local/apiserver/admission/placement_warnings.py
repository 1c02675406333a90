"""Warnings about pods that name a scheduler that does not run here, or a node that does not exist."""

import re
from collections.abc import Callable, Collection, Iterator

from deploy.local.apiserver.admission import image_warnings
from workers.api.kinds import Kind, Object

#: The scheduler that the kubelet stands in for, and that pods without a name get.
DEFAULT = "default-scheduler"
#: The kubelet also runs the pods of nodes that it presented in an earlier run: ``local-3`` where there is ``local``.
_NUMBER = re.compile(r"-[1-9][0-9]*$")

#: Returns the names of the nodes that exist.
NodeNames = Callable[[], Collection[str]]


def warned(kind: Kind, body: Object, old: Object | None, schedulers: Collection[str], nodes: NodeNames) -> list[str]:
    """Returns one warning per pod spec and field that keeps its pods waiting.

    schedulers: those that run here, beside the default one. nodes: returns the names of those that exist; with none
    nothing is known about nodes, because no kubelet has presented any yet. old: the version it replaces, whose
    warnings are known.
    """
    known = [] if old is None else warned(kind, old, None, schedulers, nodes)
    specs = image_warnings.pod_specs(kind, body)
    return [text for place, spec in specs for text in _of_spec(place, spec, schedulers, nodes) if text not in known]


def _of_spec(place: str, spec: Object, schedulers: Collection[str], nodes: NodeNames) -> Iterator[str]:
    scheduler, node = (spec.get(name) or "" for name in ("schedulerName", "nodeName"))
    if isinstance(node, str) and node:
        # The node is chosen: no scheduler is asked.
        if (there := nodes()) and node not in there and _NUMBER.sub("", node) not in there:
            yield f"{place}.nodeName: there is no node {node}: the pods wait for one of this name"
    elif isinstance(scheduler, str) and scheduler not in ("", DEFAULT, *schedulers):
        waits = "the pods wait until a client binds them to a node"
        yield f"{place}.schedulerName: no scheduler {scheduler} runs here: {waits}"
