"""Parameters of KEDA's redis family: what each type accepts and means, and what is refused."""

from typing import Any

import pytest

from penstock.parameters import Trigger
from scalers.sources.redis.cluster import RedisCluster
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.lists import Length, RedisClusterLists, RedisLists, RedisSentinelLists
from scalers.sources.redis.sentinel import RedisSentinel
from scalers.sources.redis.source import RedisSource
from scalers.sources.redis.streams import Count, RedisClusterStreams, RedisSentinelStreams, RedisStreams
from scalers.sources.tls import TLS
from scalers.trigger_types import REGISTRY
from tests.support.certificates import certificates

OWN = {"": {"listName": "work"}, "-streams": {"stream": "work"}}


def parse(type_: str, *, authentication: dict[str, str] | None = None, **metadata: str) -> Any:
    own = OWN["-streams" if type_.endswith("-streams") else ""]
    master = {"sentinelMaster": "mymaster"} if "sentinel" in type_ else {}
    given = {"address": "a:1", **own, **master, **metadata}
    return REGISTRY.find(type_).parse(Trigger(3, type_, metadata=given, authentication=authentication or {}))


@pytest.mark.parametrize(
    ("type_", "scaler"),
    [
        *(("redis", RedisLists), ("redis-streams", RedisStreams)),
        *(("redis-cluster", RedisClusterLists), ("redis-cluster-streams", RedisClusterStreams)),
        *(("redis-sentinel", RedisSentinelLists), ("redis-sentinel-streams", RedisSentinelStreams)),
    ],
)
def test_every_type_is_found_by_its_name(type_: str, scaler: type[RedisSource]) -> None:
    assert REGISTRY.find(type_) is scaler


# Where the servers are

A, B = RedisServer("a", 1), RedisServer("b", 2)


@pytest.mark.parametrize(
    ("type_", "metadata", "server"),
    [
        pytest.param("redis", {"address": "a:1, b:2"}, A, id="the first of several"),
        pytest.param("redis", {"address": "", "addresses": "a:1"}, A, id="its plural"),
        pytest.param("redis", {"address": "", "host": "h", "port": "6379"}, RedisServer("h", 6379), id="host and port"),
        pytest.param("redis", {"host": "h", "port": "2"}, A, id="address before host"),
        pytest.param("redis", {"address": "[::1]:6379"}, RedisServer("::1", 6379), id="IPv6 address"),
        pytest.param("redis", {"address": "", "host": "::1", "port": "6379"}, RedisServer("::1", 6379), id="IPv6 host"),
        pytest.param(
            "redis",
            {"username": "u", "password": "p", "databaseIndex": "4"},
            RedisServer("a", 1, 4, "u", "p"),
            id="login and database",
        ),
        pytest.param(
            "redis",
            {"enableTLS": "true", "unsafeSsl": "true"},
            RedisServer("a", 1, tls=TLS(verify=False)),
            id="TLS without checks",
        ),
        pytest.param("redis-cluster", {"address": "a:1, b:2"}, RedisCluster((A, B)), id="nodes"),
        pytest.param("redis-cluster", {"address": "", "addresses": "a:1"}, RedisCluster((A,)), id="addresses"),
        pytest.param(
            "redis-cluster", {"hosts": "b", "ports": "2"}, RedisCluster((A, B)), id="hosts and ports come after"
        ),
        pytest.param("redis-cluster", {"databaseIndex": "7"}, RedisCluster((A,)), id="a cluster has one database"),
        pytest.param(
            "redis-cluster-streams",
            {"username": "u", "password": "p"},
            RedisCluster((RedisServer("a", 1, 0, "u", "p"),)),
            id="login to nodes",
        ),
        pytest.param(
            "redis-sentinel",
            {"address": "a:1,b:2", "databaseIndex": "7", "username": "u", "password": "p"},
            RedisSentinel((A, B), "mymaster", RedisServer("", 0, 7, "u", "p")),
            id="login and database are the master's",
        ),
        pytest.param(
            "redis-sentinel-streams",
            {"sentinelUsername": "u", "sentinelPassword": "p"},
            RedisSentinel((RedisServer("a", 1, 0, "u", "p"),), "mymaster", RedisServer("", 0)),
            id="login to sentinels",
        ),
    ],
)
def test_where_to_ask(type_: str, metadata: dict[str, str], server: object) -> None:
    assert parse(type_, **metadata).server == server


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("address", "MAE"),
        ("host", "MEA"),
        ("username", "MEA"),
        ("password", "MEA"),
        ("sentinelMaster", "MAE"),
        ("sentinelUsername", "MAE"),
        ("sentinelPassword", "MAE"),
    ],
)
def test_sources_are_searched_in_kedas_order(name: str, order: str) -> None:
    """Each source holds a text that tells it; the first of the order wins, and without it the next."""
    for start in range(3):
        there = order[start:]
        metadata = {"listName": "work", "sentinelMaster": "mymaster", "address": "z:9", "port": "1", "host": "h"}
        metadata.pop(name, None)
        if "M" in there:
            metadata[name] = "m:1"
        if "E" in there:
            metadata[f"{name}FromEnv"] = "V"
        trigger = Trigger(
            0,
            "redis-sentinel",
            metadata=metadata,
            environment={"V": "e:1"},
            authentication={name: "a:1"} if "A" in there else {},
        )
        server = RedisSentinelLists.parse(trigger).server
        found = {
            "address": server.sentinels[0].place,
            "host": f"{server.sentinels[-1].host}",
            "username": server.login.username,
            "password": server.login.password,
            "sentinelMaster": server.master,
            "sentinelUsername": server.sentinels[0].username,
            "sentinelPassword": server.sentinels[0].password,
        }[name]
        assert found == f"{there[0].lower()}:1"


# TLS

PEM = certificates()


@pytest.mark.parametrize(
    ("metadata", "authentication", "tls"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"enableTLS": "false"}, {}, None, id="switched off"),
        pytest.param({"enableTLS": "true"}, {}, TLS(), id="in the metadata"),
        pytest.param({}, {"tls": "enable"}, TLS(), id="in the authentication"),
        pytest.param({}, {"tls": "disable", "ca": PEM.authority}, None, id="switched off there"),
        pytest.param({"unsafeSsl": "true"}, {"tls": "enable"}, TLS(verify=False), id="unchecked"),
        pytest.param({}, {"tls": "enable", "ca": PEM.authority}, TLS(ca=PEM.authority.strip()), id="authority"),
        pytest.param(
            {"enableTLS": "true"},
            {"Cert": PEM.client, "key": PEM.client_key, "keyPassword": "pw"},
            TLS(cert=PEM.client.strip(), key=PEM.client_key.strip(), key_password="pw"),
            id="client certificate",
        ),
    ],
)
@pytest.mark.parametrize("type_", ["redis", "redis-cluster-streams"])
def test_how_tls_is_spoken(type_: str, metadata: dict[str, str], authentication: dict[str, str], tls: object) -> None:
    server = parse(type_, authentication=authentication, **metadata).server
    node = server if isinstance(server, RedisServer) else server.seeds[0]
    assert node.tls == tls


def test_sentinels_and_master_speak_the_same_tls() -> None:
    server = parse("redis-sentinel", authentication={"tls": "enable"}).server
    assert (server.sentinels[0].tls, server.login.tls) == (TLS(), TLS())


# What is asked


def test_the_numbers_of_a_list() -> None:
    scaler = parse("redis-cluster", listLength="20", activationListLength="3")
    assert (scaler.metric, scaler.target, scaler.activation, scaler.question, scaler.watched) == (
        *("redis-work", 20, 3),
        *(Length("work"), ("work",)),
    )
    assert (parse("redis").target, parse("redis").activation) == (5, 0)


@pytest.mark.parametrize(
    ("metadata", "question", "target"),
    [
        pytest.param({}, Count("work"), 5, id="length"),
        pytest.param({"streamLength": "7", "lagCount": "3"}, Count("work"), 7, id="length: lagCount needs a group"),
        pytest.param({"consumerGroup": "g"}, Count("work", "g"), 5, id="pending"),
        pytest.param(
            {"consumerGroup": "g", "pendingEntriesCount": "7", "streamLength": "3"},
            Count("work", "g"),
            7,
            id="pending: streamLength is without meaning",
        ),
        pytest.param({"consumerGroup": "g", "lagCount": "0"}, Count("work", "g"), 5, id="lagCount 0 is none"),
        pytest.param(
            {"consumerGroup": "g", "lagCount": "3", "pendingEntriesCount": "7"},
            Count("work", "g", lag=True),
            3,
            id="lag before pending",
        ),
        pytest.param({"consumerGroup": " ", "streamLength": "2"}, Count("work"), 2, id="a blank group is none"),
    ],
)
def test_what_is_counted_follows_from_the_parameters(metadata: dict[str, str], question: Count, target: int) -> None:
    scaler = parse("redis-streams", activationLagCount="2", **metadata)
    assert (scaler.question, scaler.target, scaler.activation) == (question, target, 2)
    assert (scaler.metric, scaler.watched) == ("redis-streams-work", ("work",))
