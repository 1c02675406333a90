"""KEDA's `graphite` trigger: the newest point of a series."""

from typing import Any, ClassVar

import orjson
from pydantic import model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http.web import Session, WebSource

_M = (Source.METADATA,)


class Graphite(WebSource):
    """A target rendered by a Graphite server."""

    server_address: str = parameter(sources=_M, description="URL of the server")
    query: str = parameter(sources=_M, description="target to render")
    query_time: str = parameter(sources=_M, description="start of the range, relative to now: `-10Minutes`")
    threshold: float = parameter(100.0, sources=_M, ge=0, description="value that one Job is meant for")
    activation_threshold: float = parameter(0.0, sources=_M, description="the trigger is active above this value")

    @model_validator(mode="after")
    def _knows_one_mode(self) -> "Graphite":
        if set(self.auth_modes) - {"basic"}:
            raise ParameterError("authModes", "only basic is possible")
        return self

    url: ClassVar[str] = value_of("server_address")
    metric: ClassVar[str] = "graphite"
    target: ClassVar[float] = value_of("threshold")
    activation: ClassVar[float] = value_of("activation_threshold")

    async def ask(self, session: Session) -> float:
        """Returns the newest point that is not null; 0 without points. Raises SourceError for nulls alone."""
        query = {"from": self.query_time, "target": self.query, "format": "json"}
        answer = await self.get(session, "/render", query)
        with self.understanding("a list of series"):
            series: Any = orjson.loads(answer.body)
            if len(series) > 1:
                raise SourceError(f"{self.server}: the query answers {len(series)} series, it must be one")
            points = [point[0] for point in series[0]["datapoints"]] if series else []
        if not points:
            return 0.0
        values = [point for point in points if isinstance(point, int | float)]
        if not values:
            raise SourceError(f"{self.server}: the series has no point that is not null")
        return float(values[-1])
