"""KEDA's `cpu` and `memory` triggers, which polls do not measure.

The ScaledObject's controller reads the consumption of its target's pods itself; a ScaledJob has no pods to scale.
"""

from typing import ClassVar

from pydantic import field_validator

from penstock.scaler import Measure, Scaler, Source, SourceError, parameter
from scalers.sources.http import extracting

_M = (Source.METADATA,)


class PodResource(Scaler):
    """The consumption of pods. It asks for no Job and is never active by itself."""

    # KEDA's older spelling of the trigger's metricType, which it refuses as well.
    unsupported = frozenset({"type"})

    value: str = parameter(
        sources=_M,
        description="per pod: percent of the requests (metricType Utilization) or a quantity (AverageValue)",
    )
    container_name: str | None = parameter(None, sources=_M, description="this container alone; default all of the pod")

    @field_validator("value")
    @classmethod
    def _is_a_quantity(cls, value: str) -> str:
        try:
            extracting.number(value, "value")
        except SourceError:
            raise ValueError("must be a quantity such as 60 or 500Mi") from None
        return value

    target: ClassVar[float] = 0.0

    async def measure(self) -> Measure:
        """Returns 0, not active."""
        return Measure(0.0, active=False)


class CPU(PodResource):
    """CPU time of the target's pods; on a ScaledJob it does nothing."""

    metric: ClassVar[str] = "cpu"


class PodMemory(PodResource):
    """Memory of the target's pods; on a ScaledJob it does nothing."""

    metric: ClassVar[str] = "memory"
