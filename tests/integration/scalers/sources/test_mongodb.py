"""The `mongodb` trigger against a fake that speaks enough of MongoDB's wire protocol; a real server is not packaged."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import bson
import pytest

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import SourceError
from scalers.sources.databases.mongodb import MongoDB
from tests.integration.scalers.servers import refusing
from tests.support.certificates import certificates
from tests.support.servers import behaving, with_certificates_both_ways
from tests.support.tables import for_each

pytestmark = pytest.mark.usefixtures("sockets_of_pymongo")

_MESSAGE, _QUERY, _REPLY = 2013, 2004, 1
HELLO = {"ismaster": True, "isWritablePrimary": True, "maxWireVersion": 21, "minWireVersion": 0, "ok": 1.0}


@dataclass
class Fake:
    """Answers counts; refuses them when it is told to. asked: the aggregations, by database."""

    port: int = 0
    count: int = 0
    refuse: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if "aggregate" not in command:
            return HELLO
        self.asked.append(command)
        if self.refuse:
            return {"ok": 0.0, "errmsg": self.refuse, "code": 13, "codeName": "Unauthorized"}
        batch = [{"_id": 1, "n": self.count}] if self.count else []
        return {"ok": 1.0, "cursor": {"id": 0, "ns": "db.c", "firstBatch": batch}}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, request, _, kind = struct.unpack("<iiii", await reader.readexactly(16))
            body = await reader.readexactly(length - 16)
            if kind == _QUERY:
                start = body.index(b"\0", 4) + 9
                found = bson.encode(self.answer(bson.decode(body[start:])))
                reply, code = struct.pack("<iqii", 8, 0, 0, 1) + found, _REPLY
            else:
                found = bson.encode(self.answer(bson.decode(body[5:])))
                reply, code = struct.pack("<iB", 0, 0) + found, _MESSAGE
            writer.write(struct.pack("<iiii", 16 + len(reply), 1, request, code) + reply)
            await writer.drain()


@asynccontextmanager
async def mongo(context: ssl.SSLContext | None = None) -> AsyncIterator[Fake]:
    fake = Fake()
    async with behaving(fake.serve, context=context) as fake.port:
        yield fake


def scaler(port: int, query: str = '{"state": "new"}', options: str = "", **authentication: str) -> MongoDB:
    metadata = {"collection": "jobs", "query": query, "queryValue": "5", "dbName": "shop"}
    uri = f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=500{options}"
    return MongoDB.parse(Trigger(0, "t", metadata=metadata, authentication={"connectionString": uri, **authentication}))


@for_each(0, 7)
async def test_documents_are_counted(count: int, connections: Connections) -> None:
    async with mongo() as fake:
        fake.count = count
        asking = (scaler(fake.port), scaler(fake.port, '{"at": {"$gt": {"$numberLong": "3"}}}'))
        assert await MongoDB.read(asking, connections) == [count, count]
        await connections.close()
    matched = {str(command["pipeline"][0]["$match"]) for command in fake.asked}
    assert matched == {"{'state': 'new'}", "{'at': {'$gt': 3}}"}
    assert {(command["$db"], command["aggregate"]) for command in fake.asked} == {("shop", "jobs")}


async def test_a_query_that_is_refused_is_an_error_of_its_trigger(connections: Connections) -> None:
    async with mongo() as fake:
        fake.refuse = "not authorized on shop"
        [answer] = await MongoDB.read([scaler(fake.port)], connections)
        await connections.close()
    assert isinstance(answer, SourceError)
    assert str(answer) == f"mongodb://127.0.0.1:{fake.port}: not authorized on shop"


async def test_a_server_that_is_not_there_is_unknown(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalers.sources.databases.mongodb.PATIENCE", 0.5)
    with pytest.raises(SourceError, match=r"^mongodb://127.0.0.1:\d+: "):
        await MongoDB.read([scaler(refusing())], connections)


async def test_tls_both_ways(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalers.sources.databases.mongodb.PATIENCE", 1.0)
    ours, theirs = certificates(), certificates("others")
    shown = {"tls": "enable", "cert": ours.client, "key": ours.client_key}
    async with mongo(with_certificates_both_ways(ours)) as fake:
        fake.count = 2
        assert await MongoDB.read([scaler(fake.port, ca=ours.authority, **shown)], connections) == [2]
        with pytest.raises(SourceError):
            await MongoDB.read([scaler(fake.port, ca=theirs.authority, **shown)], connections)
        await connections.close()
