"""KEDA's `cpu` and `memory` triggers. Only an autoscaler of running pods can use them, and a ScaledJob has none."""

from pydantic import field_validator

from scalers import extracting
from scalers.scaler import Measure, Scaler, Source, SourceError, parameter

_M = (Source.METADATA,)


class PodResource(Scaler):
    """What pods consume. It asks for no Job and is never active."""

    value: str = parameter(sources=_M, description="a quantity; it has no effect")
    container_name: str | None = parameter(None, sources=_M)

    @field_validator("value")
    @classmethod
    def _is_a_quantity(cls, value: str) -> str:
        try:
            extracting.number(value, "value")
        except SourceError:
            raise ValueError("must be a quantity such as 60 or 500Mi") from None
        return value

    @property
    def target(self) -> float:
        """Nothing is meant for a Job."""
        return 0.0

    async def measure(self) -> Measure:
        """Nothing, and not active."""
        return Measure(0.0, active=False)


class CPU(PodResource):
    """CPU time of pods: accepted on a ScaledJob, where it does nothing."""

    @property
    def metric(self) -> str:
        """The type."""
        return "cpu"


class PodMemory(PodResource):
    """Memory of pods: accepted on a ScaledJob, where it does nothing."""

    @property
    def metric(self) -> str:
        """The type."""
        return "memory"
