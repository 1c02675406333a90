"""EventJob: one Job per event of a channel, from its claim to its end.

The registry imports it.
"""

from workers.controllers.eventjob.decide import CONTROLLER, decide

__all__ = ["CONTROLLER", "decide"]
