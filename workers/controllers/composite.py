"""Several controllers of one kind combined into one, because a kind has one controller."""

from collections.abc import Iterable
from datetime import datetime

from workers.api.kinds import Kind, Object, Ref
from workers.decision.controller import Controller
from workers.decision.plan import Delete, Plan
from workers.decision.snapshot import Snapshot


def composed(*parts: Controller) -> Controller:
    """Returns a controller whose plan joins the plans of these, in order, each for the objects that it accepts.

    All of them observe the union of what each asks for. A plan that deletes the object is the last one. Raises
    ValueError for parts of different kinds, or with grandchildren, scales, labels or polls.
    """
    kind = parts[0].kind
    plain = Controller(kind, parts[0].decide)
    for part in parts:
        if (part.kind, part.polled, part.labelled) != (kind, False, {}):
            raise ValueError(f"{part.kind.id} cannot be composed with {kind.id}")
        if part.scales is not plain.scales or part.grandchildren is not plain.grandchildren:
            raise ValueError(f"grandchildren and scales of {part.kind.id} cannot be composed")

    def decide(snapshot: Snapshot, now: datetime) -> Plan:
        return _joined(
            (part.decide(snapshot, now) for part in parts if snapshot.body is None or part.accepts(snapshot.body)),
            snapshot.ref,
        )

    def relatives(body: Object) -> tuple[Ref, ...]:
        return tuple(dict.fromkeys(ref for part in parts if part.accepts(body) for ref in part.relatives(body)))

    def optional_relatives(body: Object) -> tuple[Ref, ...]:
        return tuple(
            dict.fromkeys(ref for part in parts if part.accepts(body) for ref in part.optional_relatives(body))
        )

    return Controller(
        kind=kind,
        decide=decide,
        children=_all(part.children for part in parts),
        adopts=_all(part.adopts for part in parts),
        referrers=_all(part.referrers for part in parts),
        relatives=relatives,
        optional_relatives=optional_relatives,
        follows=_all(part.follows for part in parts),
        cluster_wide=_all(part.cluster_wide for part in parts),
        reads_cluster_wide=lambda body: any(
            part.cluster_wide and part.accepts(body) and part.reads_cluster_wide(body) for part in parts
        ),
        accepts=lambda body: any(part.accepts(body) for part in parts),
    )


def _joined(plans: Iterable[Plan], ref: Ref) -> Plan:
    whole = Plan()
    for plan in plans:
        why = "; ".join(each for each in (whole.why, plan.why) if each)
        whole = Plan((*whole.steps, *plan.steps), why, (*whole.figures, *plan.figures))
        if any(isinstance(step, Delete) and step.ref == ref for step in plan.steps):
            break
    return whole


def _all(kinds: Iterable[tuple[Kind, ...]]) -> tuple[Kind, ...]:
    return tuple(dict.fromkeys(kind for each in kinds for kind in each))
