"""The controller of keda.sh/v1alpha1 ScaledObject: `decide` names the stages, every other module is one rule.

`workers.controllers.registry` imports the controller, and `penstock describe` asks it for the target.
"""

from workers.controllers.keda.scaledobject.decide import CONTROLLER, controller, decide

__all__ = ["CONTROLLER", "controller", "decide"]
