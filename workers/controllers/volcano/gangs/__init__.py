"""Gang admission: which PodGroups may start, and what becomes of them."""

from workers.api.kinds import POD, POD_GROUP, QUEUE
from workers.controller import Controller
from workers.controllers.volcano.gangs.decide import Gangs
from workers.controllers.volcano.gangs.rules import DEFAULT, Rules


def controller(rules: Rules = DEFAULT) -> Controller:
    """The controller of PodGroups. Which of them may start is decided by `round.admit`, with the queue `root`."""
    return Controller(kind=POD_GROUP, decide=Gangs(rules).decide, tied=(POD,), follows=(QUEUE,))
