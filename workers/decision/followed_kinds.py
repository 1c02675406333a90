"""The kinds that a set of controllers reads, each with the objects of it that they need."""

from collections.abc import Mapping

from workers.api.kinds import POD, Kind
from workers.decision.controller import Controller


def followed(controllers: Mapping[str, Controller], selector: str = "") -> dict[Kind, str]:
    """Returns the kinds to follow, each with its label selector ("": all objects).

    selector: the settings' own, which applies only to kinds that no controller reaches from another object: children,
    adopted and referenced objects must be complete. A kind whose objects all carry one of Penstock's labels is narrowed
    by it. Pods are always followed, because a controller may request grandchildren of any object.
    """
    needs: dict[Kind, set[str]] = {POD: {""}}
    for each in controllers.values():
        for kind in (*each.children, *each.adopts, *each.referrers, *each.cluster_wide, *each.follows):
            needs.setdefault(kind, set()).add(each.labelled.get(kind.id, ""))
    top = {each.kind: selector for each in controllers.values() if each.kind not in needs}
    return top | {
        kind: min(labels) if len(labels) == 1 and kind.id not in controllers else "" for kind, labels in needs.items()
    }
