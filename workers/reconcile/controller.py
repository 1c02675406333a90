"""What makes a controller: the kind it owns, what it must see, and its pure decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from workers.api.kinds import Kind, Object, Ref
from workers.reconcile.plan import Plan
from workers.reconcile.snapshot import Snapshot


def _everything(_body: Object) -> bool:
    return True


def _no_kinds(_body: Object) -> tuple[Kind, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The workload an object scales, as its manifest spells it.

    ready: whether its ready pods must be counted. usage: whether it must be seen what its pods consume.
    """

    api_version: str
    kind: str
    name: str
    ready: bool = False
    usage: bool = False


def _no_target(_body: Object) -> ScaleTarget | None:
    return None


def _no_refs(_body: Object) -> tuple[Ref, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Controller:
    """One kind's controller.

    decide: a pure function of what was observed and the moment (an aware datetime in UTC).
    children: kinds whose objects, owned by the reconciled one, the decision must see.
    grandchildren: of this object, kinds owned by its children that the decision must see too; they stand in
    `Snapshot.children` under their own kind id. Asked per object because reading them costs.
    adopts: kinds whose objects that nobody controls, in the reconciled object's namespace, the decision must see
    (`Snapshot.loose`).
    tied: kinds whose objects name the reconciled one (`workers.api.references`) and that the decision must see
    (`Snapshot.tied`); a change of such an object wakes this one.
    peers: whether the decision must see the objects of its own kind that name the same one (`Snapshot.peers`).
    relatives: other objects the decision must see (`Snapshot.relatives`), for example the owner.
    glances: more relatives, of which one that was never seen counts as missing at once. Of others that is believed only
    when their kind is known up to the moment of the object, which takes seconds; for what the plan makes under a name
    of its own nothing is gained by that.
    follows: kinds that relatives may be of, beside those that some controller has or sees already.
    labelled: by kind id, the label that all children of that kind carry; objects of it without are not followed.
    scales: the workload whose replicas the decision must see as they are now (`Snapshot.scale`).
    everywhere: kinds, of few objects each, all of whose objects the decision must see (`Snapshot.everywhere`).
    surveys: whether the decision on this very object must see what is everywhere.
    accepts: whether this object is ours at all; others are left alone (a Job that names another manager).
    polled: whether triggers of this kind's objects are measured by the scalers.
    """

    kind: Kind
    decide: Callable[[Snapshot, datetime], Plan]
    children: tuple[Kind, ...] = ()
    grandchildren: Callable[[Object], tuple[Kind, ...]] = _no_kinds
    adopts: tuple[Kind, ...] = ()
    referrers: tuple[Kind, ...] = ()
    peers: bool = False
    relatives: Callable[[Object], tuple[Ref, ...]] = _no_refs
    optional_relatives: Callable[[Object], tuple[Ref, ...]] = _no_refs
    follows: tuple[Kind, ...] = ()
    labelled: Mapping[str, str] = field(default_factory=dict)
    scales: Callable[[Object], ScaleTarget | None] = _no_target
    cluster_wide: tuple[Kind, ...] = ()
    reads_cluster_wide: Callable[[Object], bool] = _everything
    accepts: Callable[[Object], bool] = _everything
    polled: bool = False
