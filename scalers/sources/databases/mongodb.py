"""KEDA's `mongodb` trigger: the number of documents that match a query."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote_plus

from pydantic import SecretStr, model_validator

from penstock.extras import needed
from penstock.parameters import ParameterError, require
from penstock.scaler import Connections, Source, SourceError, Unreached, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.tls import TLS, ProtectedCertificates

#: The extra that brings the client.
EXTRA = "mongodb"

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: Seconds that counting may take, as in KEDA.
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """Servers with the login. uri: may hold a password and is in no repr."""

    name: str
    uri: str = field(repr=False)
    tls: TLS | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"mongodb://{self.name}"


class MongoClient:
    """Connections to one deployment, opened when they are first needed."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        # The library reads certificates from files only; these are private and deleted with the client.
        self._files = tempfile.TemporaryDirectory() if deployment.tls else None
        self._client: Any = needed("pymongo", EXTRA).AsyncMongoClient(
            deployment.uri,
            serverSelectionTimeoutMS=int(PATIENCE * 1000),
            # Otherwise closing the client waits for a server that hangs.
            connectTimeoutMS=int(PATIENCE * 1000),
            appname="penstock",
            **self._options(),
        )

    async def count(self, database: str, collection: str, query: Any) -> float:
        """Returns the number of matching documents. Raises Unreached without a server, else SourceError."""
        errors = needed("pymongo.errors", EXTRA)
        try:
            return float(await self._client[database][collection].count_documents(query))
        except errors.ConnectionFailure as error:
            raise Unreached(f"{self._deployment}: {str(error).partition(',')[0]}") from None
        except errors.PyMongoError as error:
            raise SourceError(f"{self._deployment}: {str(error).partition(', full error')[0]}") from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()
        if self._files:
            self._files.cleanup()

    def _options(self) -> dict[str, Any]:
        tls = self._deployment.tls
        if tls is None or self._files is None:
            return {}
        options: dict[str, Any] = {"tls": True, "tlsInsecure": not tls.verify}
        shown = f"{tls.cert}\n{tls.key}\n" if tls.cert else ""
        for option, text in (("tlsCAFile", tls.ca), ("tlsCertificateKeyFile", shown)):
            if text:
                path = Path(self._files.name) / option
                path.write_text(text)
                options[option] = str(path)
        if tls.key_password:
            options["tlsCertificateKeyFilePassword"] = tls.key_password
        return options


class MongoDB(ProtectedCertificates):
    """Documents of one collection that match a query."""

    collection: str = parameter(sources=(_M,), description="collection whose documents are counted")
    query: str = parameter(sources=(_M,), description="a filter as JSON, extended JSON included")
    query_value: float = parameter(sources=(_M,), description="documents that one Job is meant for")
    activation_query_value: float = parameter(0.0, sources=(_M,), description="the trigger is active above this value")
    db_name: str = parameter(sources=(_M, _A), description="database of the collection")
    connection_string: SecretStr | None = parameter(
        None,
        sources=(_A, _M, _E),
        description="connection string, instead of `host`, `port`, `username` and `password`",
    )
    scheme: Literal["mongodb", "mongodb+srv"] = parameter(
        "mongodb", sources=(_M, _A), description="`mongodb+srv` finds the servers by DNS"
    )
    host: str | None = parameter(None, sources=(_M, _A), description="host of the server")
    port: str | None = parameter(None, sources=(_M, _A), description="none with `mongodb+srv`")
    username: str | None = parameter(None, sources=(_M, _A), description="user name of the login")
    password: SecretStr | None = parameter(None, sources=(_A, _M, _E), description="password of the login")
    tls: Literal["enable", "disable"] = parameter("disable", sources=(_A,), description="`enable` speaks TLS")

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        needed("pymongo", EXTRA)
        self.filter()
        if self.connection_string is None:
            wanted = {"host": self.host, "username": self.username, "password": self.password}
            require({**wanted, **({"port": self.port} if self.scheme == "mongodb" else {})}, "connectionString")
        material = self.certificates()
        self._check_uri()
        if self.tls == "enable":
            material.context()
        elif "tls" not in self.model_fields_set:
            self.refuse_unused("tls: enable")
        return self

    def _check_uri(self) -> None:
        uri = self.server.uri
        parser, errors = needed("pymongo.uri_parser", EXTRA), needed("pymongo.errors", EXTRA)
        try:
            # The names behind mongodb+srv are resolved when the source is measured, not when the trigger is parsed.
            if uri.startswith("mongodb+srv://"):
                query = uri.partition("?")[2]
                _ = parser.split_options(query) if query else None
            else:
                parser.parse_uri(uri)
        except (errors.PyMongoError, ValueError):
            name = "connectionString" if self.connection_string else "host"
            raise ParameterError(name, "does not name a MongoDB deployment") from None

    def filter(self) -> Any:
        """Returns the query as a document. Raises ParameterError."""
        try:
            found = needed("bson.json_util", EXTRA).loads(self.query)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, dict):
            raise ParameterError("query", "must be a JSON document")
        return found

    @property
    def server(self) -> Deployment:
        """The deployment with the login."""
        if self.connection_string is not None:
            uri = self.connection_string.get_secret_value()
        else:
            password = self.password.get_secret_value() if self.password else ""
            where = f"{self.host}:{self.port}" if self.scheme == "mongodb" else self.host
            uri = f"{self.scheme}://{quote_plus(self.username or '')}:{quote_plus(password)}@{where}/{self.db_name}"
        name = uri.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]
        return Deployment(name, uri, self.certificates() if self.tls == "enable" else None)

    patience: ClassVar[float | None] = PATIENCE
    metric: ClassVar[str] = text_of("mongodb-{0.collection}")
    target: ClassVar[float] = value_of("query_value")
    activation: ClassVar[float] = value_of("activation_query_value")

    async def answer(self, connections: Connections) -> float:
        """Returns the number of matching documents, over the client that all triggers of the deployment share."""
        server = self.server
        async with connections.use(server, lambda: MongoClient(server), MongoClient.close) as client:
            return await client.count(self.db_name, self.collection, self.filter())
