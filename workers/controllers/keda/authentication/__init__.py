"""The controllers of TriggerAuthentication and ClusterTriggerAuthentication."""

from workers.controllers.keda.authentication.decide import CONTROLLERS, decide

__all__ = ["CONTROLLERS", "decide"]
