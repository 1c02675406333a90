"""KEDA's `metrics-api` trigger: a number in the answer of an HTTP API."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.http import extracting
from scalers.sources.http.web import Session, WebSource
from workers.api.kinds import ENDPOINTS, Ref
from workers.errors import ClusterError, NotFound

_M = (Source.METADATA,)

#: The name in PENSTOCK_KEDA_QUIRKS under which endpoints that fail are left out.
_PARTIAL = "partial-aggregation"

#: Endpoints asked at once.
_AT_ONCE = 5

_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"average": fmean, "sum": sum, "max": max, "min": min}
_READERS = {
    "json": extracting.from_json,
    "yaml": extracting.from_yaml,
    "xml": extracting.from_xml,
    "prometheus": extracting.from_prometheus,
}


class MetricsAPI(WebSource):
    """A URL whose answer holds the value."""

    endpoint: str = parameter(name="url", sources=_M, description="URL that is asked")
    value_location: str = parameter(
        sources=_M,
        description="place: a [path](json-paths.md) (`json`), dotted path (`yaml`, `xml`), metric (`prometheus`)",
    )
    target_value: float = parameter(sources=_M, gt=0, description="value that one Job is meant for")
    activation_target_value: float = parameter(0.0, sources=_M, description="the trigger is active above this value")
    format: Literal["json", "yaml", "xml", "prometheus"] = parameter(
        "json", sources=_M, description="format of the answer; YAML up to 256 KB, whose aliases are not followed"
    )
    aggregate_from_kube_service_endpoints: bool = parameter(
        False, sources=_M, description="ask every ready endpoint of the Service that the URL names"
    )
    aggregation_type: Literal["average", "sum", "max", "min"] = parameter(
        "average", sources=_M, description="how the endpoints' values become one"
    )

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if self.aggregate_from_kube_service_endpoints and _service(self.endpoint) is None:
            raise ParameterError(
                "url", "must name a Service to aggregate over, such as http://service.namespace:8080/path"
            )
        extracting.check(self.format, self.value_location)
        return self

    url: ClassVar[str] = value_of("endpoint")
    url_parameter: ClassVar[str] = "url"
    metric: ClassVar[str] = text_of("metric-api-{0.value_location}")
    target: ClassVar[float] = value_of("target_value")
    activation: ClassVar[float] = value_of("activation_target_value")

    async def ask(self, session: Session) -> float:
        """Returns the number at the value location; only status 200 is a success."""
        if not self.aggregate_from_kube_service_endpoints:
            return await self._value(session, "")
        bases = await self._endpoints(session)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(base: str) -> float:
            async with turns:
                return await self._value(session, base)

        answers = await asyncio.gather(*(one(base) for base in bases), return_exceptions=True)
        values = [answer for answer in answers if isinstance(answer, float)]
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        # KEDA leaves failed endpoints out; the sum without one of them would be wrong, and nothing would say so.
        if failures and not (values and _PARTIAL in self.quirks):
            raise failures[0]
        return _AGGREGATES[self.aggregation_type](values)

    async def _value(self, session: Session, base: str) -> float:
        answer = await self.request(session, "", base=base)
        if answer.status != 200:
            raise SourceError(f"{base or self.server} answered {answer.outcome}")
        value = _READERS[self.format](answer.body, self.value_location)
        if value is None:
            raise SourceError(f"what is at {self.value_location} is null")
        return value

    async def _endpoints(self, session: Session) -> list[str]:
        """Returns the URL once for every ready endpoint of its Service."""
        found = _service(self.endpoint)
        if session.cluster is None or found is None:
            raise SourceError("there is no cluster to ask here")
        ref = Ref(ENDPOINTS, found[1], found[0])
        try:
            body = await session.cluster.get(ref)
        except NotFound:
            raise SourceError(f"{ref} does not exist") from None
        except ClusterError as error:
            raise SourceError(f"the API server: {error}") from error
        addresses = [each["ip"] for subset in body.get("subsets") or () for each in subset.get("addresses") or ()]
        if not addresses:
            raise SourceError(f"{ref} has no endpoint that is ready")
        parts = urlsplit(self.endpoint)
        port = f":{parts.port}" if parts.port else ""
        hosts = (f"[{address}]" if ":" in address else address for address in addresses)
        return [parts._replace(netloc=f"{host}{port}").geturl() for host in hosts]


def _service(url: str) -> tuple[str, str] | None:
    """Returns the name and the namespace of the Service that a URL inside a cluster names, or None."""
    name, _, rest = (urlsplit(url).hostname or "").partition(".")
    namespace, _, suffix = rest.partition(".")
    inside = not suffix or suffix == "svc" or suffix.startswith("svc.")
    return (name, namespace) if name and namespace and inside and not name.isdecimal() else None
