"""keda.sh/v1alpha1 ScaledObject: one module per rule, and `decide`, which puts them in order."""

from workers.controllers.keda.scaledobject.decide import CONTROLLER, decide

__all__ = ["CONTROLLER", "decide"]
