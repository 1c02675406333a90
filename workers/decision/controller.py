"""The controller of a kind: the objects it observes and its pure decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from workers.api.kinds import Kind, Object, Ref
from workers.decision.plan import Plan
from workers.decision.snapshot import Snapshot


def _everything(_body: Object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The workload an object scales, as its manifest names it.

    ready: its ready pods are counted. usage: the resource usage of its pods is read.
    """

    api_version: str
    kind: str
    name: str
    ready: bool = False
    usage: bool = False


def _no_refs(_body: Object) -> tuple[Ref, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Controller:
    """One kind's controller.

    decide: a pure function of the snapshot and the moment (an aware datetime in UTC).
    children: kinds whose objects, owned by the reconciled one, are observed.
    grandchildren: for this object, kinds owned by its children that are observed too (`Snapshot.children`, under their
    own kind id). A function, because reading them costs a round trip.
    adopts: kinds whose objects without a controller, in the object's namespace, are observed (`Snapshot.unowned`).
    referrers: kinds whose objects name the reconciled one (`workers.api.references`); they are observed
    (`Snapshot.referrers`), and their changes mark it.
    peers: kinds whose other objects name the same object as this one (`workers.api.references`); they are observed
    (`Snapshot.peers`).
    relatives: other objects to observe (`Snapshot.relatives`), for example the owner.
    optional_relatives: relatives that count as missing when the store does not know them. Others count as missing only
    once their kind is known up to the moment the object arrived, which takes seconds; for objects that the plan creates
    under deterministic names that wait gains nothing.
    follows: kinds of relatives that no controller reconciles or observes otherwise.
    labelled: by kind id, the label that all children of that kind carry; objects of it without are not followed.
    scales: the workload whose current replicas are read (`Snapshot.scale`).
    cluster_wide: kinds, of few objects each, that are observed whole (`Snapshot.cluster_wide`).
    reads_cluster_wide: True for objects whose decision needs them.
    accepts: True for objects we reconcile; others are left alone (a Job that names another manager).
    polled: scalers measure the triggers of this kind's objects.
    needs_reading: True for objects of a polled kind whose decisions need their last reading and order.
    """

    kind: Kind
    decide: Callable[[Snapshot, datetime], Plan]
    children: tuple[Kind, ...] = ()
    grandchildren: Callable[[Object], tuple[Kind, ...]] = lambda _body: ()
    adopts: tuple[Kind, ...] = ()
    referrers: tuple[Kind, ...] = ()
    peers: tuple[Kind, ...] = ()
    relatives: Callable[[Object], tuple[Ref, ...]] = _no_refs
    optional_relatives: Callable[[Object], tuple[Ref, ...]] = _no_refs
    follows: tuple[Kind, ...] = ()
    labelled: Mapping[str, str] = field(default_factory=dict)
    scales: Callable[[Object], ScaleTarget | None] = lambda _body: None
    cluster_wide: tuple[Kind, ...] = ()
    reads_cluster_wide: Callable[[Object], bool] = _everything
    accepts: Callable[[Object], bool] = _everything
    polled: bool = False
    needs_reading: Callable[[Object], bool] = _everything
