"""KEDA's `elasticsearch` and `opensearch` triggers: a number in the answer of a search."""

import base64
from typing import Any, ClassVar, Self
from urllib.parse import quote

import orjson
from aiohttp import encode_basic_auth
from pydantic import SecretStr, field_validator, model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http import extracting
from scalers.sources.http.web import Session, WebSource

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT


class Elasticsearch(WebSource):
    """A search, or a search template, on one cluster."""

    addresses: tuple[str, ...] = parameter(
        (), sources=(_A, _M), description="URLs of the cluster's nodes, asked in this order"
    )
    cloud_id: str | None = parameter(
        None, name="cloudID", sources=(_A, _M), description="Elastic Cloud id, instead of `addresses`"
    )
    api_key: SecretStr | None = parameter(
        None, sources=(_A, _M), description="API key instead of a user name and password; required with `cloudID`"
    )
    username: str | None = parameter(None, sources=(_A, _M), description="user name of the login")
    password: SecretStr | None = parameter(None, sources=(_A, _E, _M), description="password of the login")
    index: str = parameter(sources=(_A, _M), description="index to search; several are separated by `;`")
    query: str | None = parameter(
        None, sources=(_A, _M), description="search body as JSON; not together with `searchTemplateName`"
    )
    search_template_name: str | None = parameter(
        None, sources=(_A, _M), description="stored search template to run instead of `query`"
    )
    parameters: str | None = parameter(
        None, sources=(_M,), description="parameters of the search template: `name:value`, separated by `;`"
    )
    value_location: str = parameter(sources=(_A, _M), description="[path](json-paths.md) of the number in the answer")
    target_value: float = parameter(sources=(_A, _M), ge=0, description="value that one Job is meant for")
    activation_target_value: float = parameter(
        0.0, sources=(_A, _M), description="the trigger is active above this value"
    )
    ignore_null_values: bool = parameter(
        False, sources=(_M,), description="null at `valueLocation` counts as 0 instead of unknown"
    )

    @field_validator("query")
    @classmethod
    def _is_json(cls, query: str | None) -> str | None:
        if query is not None:
            try:
                orjson.loads(query)
            except orjson.JSONDecodeError:
                raise ValueError("must be a search body in JSON") from None
        return query

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        extracting.check("json", self.value_location)
        if (self.query is None) == (self.search_template_name is None):
            raise ParameterError("query", "exactly one of query and searchTemplateName must be given")
        if self.parameters is not None and not all(":" in pair for pair in self.parameters.split(";")):
            raise ParameterError("parameters", "must be pairs such as a:1;b:2")
        if self.addresses and not (self.api_key or (self.username and self.password)):
            raise ParameterError("username", "and password are required with addresses")
        if not self.addresses and not self.api_key:
            raise ParameterError("apiKey", "is required with cloudID")
        return self

    @property
    def url(self) -> str:
        """The first address, or that of the cloud id."""
        if self.addresses:
            return self.addresses[0]
        if not self.cloud_id:
            raise ParameterError("addresses", "is required, or cloudID")
        return _of_cloud(self.cloud_id)

    url_parameter: ClassVar[str] = "addresses"

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"elasticsearch-{self.search_template_name or 'query'}"

    target: ClassVar[float] = value_of("target_value")
    activation: ClassVar[float] = value_of("activation_target_value")

    async def ask(self, session: Session) -> float:
        """Returns the number at the value location of the answer."""
        indices = ",".join(quote(index.strip(), safe="*-_.") for index in self.index.split(";"))
        path, body = f"/{indices}/_search", self.query and orjson.loads(self.query)
        if self.search_template_name:
            path += "/template"
            pairs = [pair.partition(":") for pair in (self.parameters or "").split(";") if pair]
            values = {name.strip(): value.strip() for name, _, value in pairs}
            body = {"id": self.search_template_name, "params": values}
        answer = await self.anywhere(
            session,
            self.addresses or ("",),
            lambda base: self.get(session, path, method="POST", json=body, headers=self._login(), base=base),
        )
        value = extracting.from_json(answer.body, self.value_location)
        if value is None and not self.ignore_null_values:
            raise SourceError(f"what is at {self.value_location} is null")
        return value or 0.0

    def _login(self) -> dict[str, str]:
        if self.api_key:
            return {"Authorization": f"ApiKey {self.api_key.get_secret_value()}"}
        secret = self.password.get_secret_value() if self.password else ""
        return {"Authorization": encode_basic_auth(self.username or "", secret, "utf-8")}


def _of_cloud(cloud_id: str) -> str:
    """Returns the address in ``name:base64(host$cluster$kibana)``."""
    try:
        parts: list[Any] = base64.b64decode(cloud_id.rpartition(":")[2], validate=True).decode().split("$")
        host, _, port = parts[0].partition(":")
        return f"https://{parts[1]}.{host}:{port or 443}"
    except (ValueError, IndexError):
        raise ParameterError("cloudID", "is not one") from None


class OpenSearch(Elasticsearch):
    """The same on an OpenSearch cluster."""

    unsupported = frozenset({"enableTLS", "caCert", "clientCert", "clientKey"})

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"opensearch-{self.search_template_name or 'query'}"
