"""KEDA's `metrics-api` trigger: a number in what some HTTP API answers."""

from typing import Literal, Self

from pydantic import field_validator, model_validator

from scalers import extracting
from scalers.parameters import ParameterError
from scalers.scaler import Source, SourceError, parameter
from scalers.web import Session, WebSource

_M = (Source.METADATA,)

_READERS = {
    "json": extracting.from_json,
    "yaml": extracting.from_yaml,
    "xml": extracting.from_xml,
    "prometheus": extracting.from_prometheus,
}


class MetricsAPI(WebSource):
    """A URL whose answer holds the value."""

    endpoint: str = parameter(name="url", sources=_M)
    value_location: str = parameter(sources=_M)
    target_value: float = parameter(sources=_M, gt=0)
    activation_target_value: float = parameter(0.0, sources=_M)
    format: Literal["json", "yaml", "xml", "prometheus"] = parameter("json", sources=_M)
    aggregate_from_kube_service_endpoints: bool = parameter(False, sources=_M)

    @field_validator("aggregate_from_kube_service_endpoints")
    @classmethod
    def _asks_one_address(cls, aggregate: bool) -> bool:
        if aggregate:
            raise ValueError("is not supported yet: the URL itself is asked")
        return aggregate

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if self.format == "prometheus":
            try:
                extracting.selector(self.value_location)
            except ValueError as error:
                raise ParameterError("valueLocation", str(error)) from None
        return self

    @property
    def url(self) -> str:
        """The URL, path and query included."""
        return self.endpoint

    @property
    def url_parameter(self) -> str:
        """How the manifest spells it."""
        return "url"

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"metric-api-{self.value_location}"

    @property
    def target(self) -> float:
        """The target value."""
        return self.target_value

    @property
    def activation(self) -> float:
        """The activation value."""
        return self.activation_target_value

    async def ask(self, session: Session) -> float:
        """The number at the value location; only status 200 is success."""
        answer = await self.request(session, "")
        if answer.status != 200:
            raise SourceError(f"{self.server} answered {answer.status}")
        value = _READERS[self.format](answer.body, self.value_location)
        if value is None:
            raise SourceError(f"what is at {self.value_location} is null")
        return value
