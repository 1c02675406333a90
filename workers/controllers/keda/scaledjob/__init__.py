"""The controller of keda.sh/v1alpha1 ScaledJob: `decide` names the stages, every other module is one rule.

`workers.controllers.registry` imports the controller; reservations read `policy`; nothing else imports this folder.
"""

from workers.controllers.keda.scaledjob.decide import CONTROLLER, controller, decide

__all__ = ["CONTROLLER", "controller", "decide"]
