"""KEDA's `prometheus` trigger: the value of an instant query."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

import orjson

from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http.web import AMAZON, Session, WebSource

_M = (Source.METADATA,)


class Vector(WebSource):
    """A query of one sample in Prometheus' HTTP API, which Loki has as well."""

    server_address: str = parameter(sources=_M, description="URL of the server")
    query: str = parameter(sources=_M, description="instant query that answers one sample")
    threshold: float = parameter(sources=_M, ge=0, description="value that one Job is meant for")
    activation_threshold: float = parameter(0.0, sources=_M, description="the trigger is active above this value")
    ignore_null_values: bool = parameter(
        True, sources=_M, description="no sample, NaN or infinity count as 0 instead of unknown"
    )

    url: ClassVar[str] = value_of("server_address")
    target: ClassVar[float] = value_of("threshold")
    activation: ClassVar[float] = value_of("activation_threshold")

    def sample(self, body: bytes) -> float:
        """Returns the one value of an answer; no value is 0 unless the trigger says otherwise.

        Raises SourceError for several series, and for anything else than an answer to a query.
        """
        with self.understanding("one of a query"):
            answer: Any = orjson.loads(body)
            result = answer["data"]["result"]
            if answer["data"].get("resultType") == "scalar":
                result = [{"value": result}]
            if len(result) > 1:
                raise SourceError(f"{self.server}: the query answers {len(result)} series, it must be one")
            text = result[0]["value"][1] if result and result[0].get("value") else None
            value = None if text is None else float(text)
        if value is None or value != value or value in (float("inf"), float("-inf")):
            if self.ignore_null_values:
                return 0.0
            raise SourceError(f"{self.server}: the query answers {'nothing' if value is None else value}")
        return value


class Prometheus(Vector):
    """A query on a Prometheus server, or on anything that speaks its HTTP API."""

    unsupported = AMAZON | {"credentialsFromEnv", "credentialsFromEnvFile"}

    namespace: str | None = parameter(
        None, sources=_M, description="sent as the query parameter `namespace`, for servers with several tenants"
    )
    query_parameters: dict[str, str] | None = parameter(None, sources=_M, description="further query parameters")
    custom_headers: dict[str, str] | None = parameter(None, sources=_M, description="further headers")

    metric: ClassVar[str] = "prometheus"

    async def ask(self, session: Session) -> float:
        """Returns the query's value now. Equal queries of one second, with equal logins, are one request."""
        query: Mapping[str, str] = {
            "query": self.query,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **({"namespace": self.namespace} if self.namespace else {}),
            **(self.query_parameters or {}),
        }
        answer = await self.shared(session, "/api/v1/query", query, headers=self.custom_headers)
        return self.sample(answer.body)
