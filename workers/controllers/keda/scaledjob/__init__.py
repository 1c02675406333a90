"""The controller of keda.sh/v1alpha1 ScaledJob: `decide` names the stages, every other module is one rule.

Reservations and limits learn of its Jobs by what the controller declares; they import nothing of it.
"""

from workers.controllers.keda.scaledjob.decide import CONTROLLER, controller, decide

__all__ = ["CONTROLLER", "controller", "decide"]
