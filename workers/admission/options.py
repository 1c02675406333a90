"""What the rules take from the settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """schedulers: whose pods and jobs are ours. pod_scheduler: who places the pods of admitted gangs in their stead.

    gangs: whether somebody admits gangs; pods that nobody would ever let through are not held back.
    """

    schedulers: tuple[str, ...] = ("volcano",)
    pod_scheduler: str = "default-scheduler"
    gangs: bool = True
