"""KEDA's `influxdb` trigger: the value of a query, on InfluxDB 2 (Flux) and 3 (InfluxQL, SQL)."""

import csv
import io
from typing import Any, ClassVar, Literal, Self

import orjson
from pydantic import SecretStr, model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http import extracting
from scalers.sources.http.web import Session, WebSource

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT


class InfluxDB(WebSource):
    """A query on one InfluxDB server.

    KEDA speaks Arrow Flight to InfluxDB 3; this asks its HTTP interface.
    """

    server_url: str = parameter(name="serverURL", sources=(_A, _M), description="URL of the server")
    auth_token: SecretStr | None = parameter(None, sources=(_E, _A), description="API token")
    query: str = parameter(
        sources=(_M,), description="query whose value counts: Flux for version 2, InfluxQL or SQL for version 3"
    )
    threshold_value: float = parameter(sources=(_M,), gt=0, description="value that one Job is meant for")
    activation_threshold_value: float = parameter(
        0.0, sources=(_M,), description="the trigger is active above this value"
    )
    influx_version: Literal["2", "3"] = parameter("2", sources=(_M,), description="major version of the server")
    organization_name: str | None = parameter(
        None, sources=(_M, _E, _A), description="organization, required by version 2"
    )
    database: str | None = parameter(None, sources=(_M, _E, _A), description="database, required by version 3")
    metric_key: str | None = parameter(
        None, sources=(_M,), description="column that holds the value, required by version 3"
    )
    query_type: Literal["InfluxQL", "FlightSQL"] = parameter(
        "InfluxQL", sources=(_M,), description="FlightSQL is SQL, asked over HTTP: InfluxDB 3 Core and Enterprise"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.influx_version == "2":
            needed = {"organizationName": self.organization_name, "authToken": self.auth_token}
        else:
            needed = {"database": self.database, "metricKey": self.metric_key, "authToken": self.auth_token}
        for name, value in needed.items():
            if value is None:
                raise ParameterError(name, f"is required by influxVersion {self.influx_version}")
        return self

    url: ClassVar[str] = value_of("server_url")
    url_parameter: ClassVar[str] = "serverURL"

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"influxdb-{self.organization_name if self.influx_version == '2' else self.database}"

    target: ClassVar[float] = value_of("threshold_value")
    activation: ClassVar[float] = value_of("activation_threshold_value")

    async def ask(self, session: Session) -> float:
        """Returns the first value (version 2), or the metric's value in the last row, 0 without rows (version 3)."""
        token = self.auth_token.get_secret_value() if self.auth_token else ""
        if self.influx_version == "2":
            answer = await self.get(
                session,
                "/api/v2/query",
                {"org": self.organization_name or ""},
                method="POST",
                json={"query": self.query, "type": "flux"},
                headers={"Authorization": f"Token {token}", "Accept": "application/csv"},
            )
            return _first(answer.body.decode(errors="replace"))
        # SQL is sent over HTTP instead of Arrow Flight: the query and the server are the same.
        sql = self.query_type == "FlightSQL"
        asked = {"db": self.database or "", "q": self.query}
        answer = await self.get(
            session,
            "/api/v3/query_sql" if sql else "/query",
            {**asked, "format": "json"} if sql else asked,
            headers={"Authorization": f"Bearer {token}"},
        )
        row = _last_of_sql(answer.body) if sql else _last_of_influxql(answer.body)
        return 0.0 if row is None else _value(row, self.metric_key or "")


def _first(text: str) -> float:
    """Returns the first ``_value`` of an annotated CSV; lines that begin with # are annotations."""
    rows = csv.DictReader(io.StringIO("\n".join(line for line in text.splitlines() if line and line[0] != "#")))
    for row in rows:
        if row.get("error"):
            raise SourceError(f"the query failed: {row['error']}")
        value = extracting.number(row.get("_value"), "_value")
        if value is None:
            raise SourceError("the query answers no _value")
        return value
    raise SourceError("the query answers no rows")


def _last_of_sql(body: bytes) -> dict[str, Any] | None:
    """Returns the last row, None without rows."""
    try:
        rows = orjson.loads(body)
        return dict(rows[-1]) if rows else None
    except (ValueError, KeyError, TypeError):
        raise SourceError("the answer is not a list of rows") from None


def _last_of_influxql(body: bytes) -> dict[str, Any] | None:
    """Returns the last row, None without rows."""
    try:
        [result] = orjson.loads(body)["results"]
        if "error" in result:
            raise SourceError(f"the query failed: {result['error']}")
        series: list[Any] = result.get("series") or []
        if not series or not series[-1].get("values"):
            return None
        return dict(zip(series[-1]["columns"], series[-1]["values"][-1], strict=True))
    except (ValueError, KeyError, TypeError):
        raise SourceError("the answer is not one of InfluxQL") from None


def _value(row: dict[str, Any], column: str) -> float:
    if column not in row:
        raise SourceError(f"the query answers no column {column}; there are {', '.join(row)}")
    value = extracting.number(row[column], column)
    if value is None:
        raise SourceError(f"{column} of the last row is null")
    return value
