"""The Queue: its states, its parent and children, its counters and Commands.

The registry imports it.
"""

from workers.controllers.volcano.queue.decide import controller, decide

__all__ = ["controller", "decide"]
