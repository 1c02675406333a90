"""PodGroups: gang admission, phases, ungating and back-out.

The registry imports it; `queue` runs its admission round; the command line reads `group` and `order`.
"""

from collections.abc import Callable
from datetime import datetime

from workers.api.kinds import POD, POD_GROUP
from workers.controllers.volcano.podgroup.admission_round import EVERYWHERE, admit
from workers.controllers.volcano.podgroup.decide import GangDecision
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.decision.controller import Controller
from workers.decision.plan import Plan
from workers.decision.snapshot import Snapshot

__all__ = ["EVERYWHERE", "GangRules", "controller", "rounds"]


def controller(rules: GangRules = DEFAULT_RULES) -> Controller:
    """Returns the controller of PodGroups: phases, ungated pods and back-out."""
    return Controller(kind=POD_GROUP, decide=GangDecision(rules).decide, referrers=(POD,))


def rounds(rules: GangRules = DEFAULT_RULES) -> Callable[[Snapshot, datetime], Plan]:
    """Returns the admission round, a decision of the queue `root`. It must observe everything of EVERYWHERE."""
    return lambda snapshot, now: admit(snapshot, now, rules)
