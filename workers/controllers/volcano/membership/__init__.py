"""PodGroups of pods that no Job of Volcano made: who becomes a member of which, and how a group follows its owner."""

from workers.controllers.volcano.membership.pods import controller
from workers.controllers.volcano.membership.workloads import CONTROLLER as WORKLOADS

__all__ = ["WORKLOADS", "controller"]
