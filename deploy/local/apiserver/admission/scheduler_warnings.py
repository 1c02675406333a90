"""Warnings about pods that name a scheduler of their own: the cluster runs none but its own."""

from collections.abc import Collection

from deploy.local.apiserver.admission import image_warnings
from workers.api.kinds import Kind, Object

#: The scheduler that the kubelet stands in for, and that pods without a name get.
DEFAULT = "default-scheduler"


def warned(kind: Kind, body: Object, old: Object | None, schedulers: Collection[str]) -> list[str]:
    """Returns one warning per pod spec that leaves the choice of a node to a scheduler that is not known here.

    schedulers: those that are, beside the default one. old: the version it replaces, whose warnings are known.
    """
    known = [] if old is None else warned(kind, old, None, schedulers)
    named = ((place, spec.get("schedulerName")) for place, spec in image_warnings.pod_specs(kind, body))
    texts = [
        f"{place}.schedulerName: no scheduler {name} runs here: the pods wait until a client binds them to a node"
        for place, name in named
        if isinstance(name, str) and name not in ("", DEFAULT, *schedulers)
    ]
    return [text for text in texts if text not in known]
