"""Gang admission: which PodGroups may start, and what becomes of them."""

from collections.abc import Callable
from datetime import datetime

from workers.api.kinds import POD, POD_GROUP
from workers.controllers.volcano.podgroup.decide import GangDecision
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.controllers.volcano.podgroup.round import EVERYWHERE, admit
from workers.reconcile.controller import Controller
from workers.reconcile.plan import Plan
from workers.reconcile.snapshot import Snapshot

__all__ = ["EVERYWHERE", "GangRules", "controller", "rounds"]


def controller(rules: GangRules = DEFAULT_RULES) -> Controller:
    """The controller of PodGroups: their phases, their pods let go, their back-out."""
    return Controller(kind=POD_GROUP, decide=GangDecision(rules).decide, tied=(POD,))


def rounds(rules: GangRules = DEFAULT_RULES) -> Callable[[Snapshot, datetime], Plan]:
    """What the queue `root` decides for all: who may start. It must see everything of EVERYWHERE."""
    return lambda snapshot, now: admit(snapshot, now, rules)
