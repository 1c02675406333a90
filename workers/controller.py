"""What makes a controller: the kind it owns, what it must see, and its pure decision."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from workers.api.kinds import Kind, Object
from workers.plan import Plan
from workers.snapshot import Snapshot


def _everything(_body: Object) -> bool:
    return True


def _no_kinds(_body: Object) -> tuple[Kind, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Controller:
    """One kind's controller.

    decide: a pure function of what was observed and the moment (an aware datetime in UTC).
    children: kinds whose objects, owned by the reconciled one, the decision must see.
    grandchildren: of this object, kinds owned by its children that the decision must see too; they stand in
    `Snapshot.children` under their own kind id. Asked per object because reading them costs.
    accepts: whether this object is ours at all; others are left alone (a Job that names another manager).
    polled: whether triggers of this kind's objects are measured by the scalers.
    """

    kind: Kind
    decide: Callable[[Snapshot, datetime], Plan]
    children: tuple[Kind, ...] = ()
    grandchildren: Callable[[Object], tuple[Kind, ...]] = _no_kinds
    accepts: Callable[[Object], bool] = _everything
    polled: bool = False
