"""keda.sh/v1alpha1 ScaledJob: one module per rule, and `decide`, which puts them in order."""

from workers.controllers.keda.scaledjob.decide import CONTROLLER, controller, decide

__all__ = ["CONTROLLER", "controller", "decide"]
