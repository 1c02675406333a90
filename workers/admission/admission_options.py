"""The settings of the rules."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """schedulers: whose pods and jobs are Penstock's. pod_scheduler: places the pods of admitted gangs.

    gangs: gangs are admitted; without it no pod is gated, because no round would ungate it.
    """

    schedulers: tuple[str, ...] = ("volcano",)
    pod_scheduler: str = "default-scheduler"
    gangs: bool = True
