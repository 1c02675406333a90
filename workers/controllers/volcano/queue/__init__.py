"""scheduling.volcano.sh/v1beta1 Queue: its states as a table, the queues above and below, and `decide`."""

from workers.controllers.volcano.queue.decide import controller, decide

__all__ = ["controller", "decide"]
