"""Volcano's Job: tasks of pods that start as one gang and share a life cycle.

The registry and `podgroup` import it; `decide` orders the other modules.
"""

from workers.controllers.volcano.job.decide import controller, decide

__all__ = ["controller", "decide"]
