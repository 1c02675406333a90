"""Parameters of KEDA's redis family: what each type accepts and means, and what is refused."""

from typing import Any

import pytest

from penstock.parameters import Trigger
from scalers.scaler_registry import REGISTRY
from scalers.sources.redis.cluster import RedisCluster
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.lists import Length, RedisClusterLists, RedisLists, RedisSentinelLists
from scalers.sources.redis.sentinel import RedisSentinel
from scalers.sources.redis.source import RedisSource
from scalers.sources.redis.streams import Count, RedisClusterStreams, RedisSentinelStreams, RedisStreams
from scalers.sources.tls import TLS
from tests.support.certificates import certificates
from tests.support.tables import cases, for_each

OWN = {"": {"listName": "work"}, "-streams": {"stream": "work"}}


def parse(type_: str, *, authentication: dict[str, str] | None = None, **metadata: str) -> Any:
    own = OWN["-streams" if type_.endswith("-streams") else ""]
    master = {"sentinelMaster": "mymaster"} if "sentinel" in type_ else {}
    given = {"address": "a:1", **own, **master, **metadata}
    return REGISTRY.find(type_).parse(Trigger(3, type_, metadata=given, authentication=authentication or {}))


@for_each(
    *(("redis", RedisLists), ("redis-streams", RedisStreams)),
    *(("redis-cluster", RedisClusterLists), ("redis-cluster-streams", RedisClusterStreams)),
    *(("redis-sentinel", RedisSentinelLists), ("redis-sentinel-streams", RedisSentinelStreams)),
)
def test_every_type_is_found_by_its_name(type_: str, scaler: type[RedisSource]) -> None:
    assert REGISTRY.find(type_) is scaler


# Where the servers are

A, B = RedisServer("a", 1), RedisServer("b", 2)


@cases(
    ("the first of several", "redis", {"address": "a:1, b:2"}, A),
    ("its plural", "redis", {"address": "", "addresses": "a:1"}, A),
    ("host and port", "redis", {"address": "", "host": "h", "port": "6379"}, RedisServer("h", 6379)),
    ("address before host", "redis", {"host": "h", "port": "2"}, A),
    ("IPv6 address", "redis", {"address": "[::1]:6379"}, RedisServer("::1", 6379)),
    ("IPv6 host", "redis", {"address": "", "host": "::1", "port": "6379"}, RedisServer("::1", 6379)),
    (
        "login and database",
        "redis",
        {"username": "u", "password": "p", "databaseIndex": "4"},
        RedisServer("a", 1, 4, "u", "p"),
    ),
    (
        "TLS without checks",
        "redis",
        {"enableTLS": "true", "unsafeSsl": "true"},
        RedisServer("a", 1, tls=TLS(verify=False)),
    ),
    ("nodes", "redis-cluster", {"address": "a:1, b:2"}, RedisCluster((A, B))),
    ("addresses", "redis-cluster", {"address": "", "addresses": "a:1"}, RedisCluster((A,))),
    ("hosts and ports come after", "redis-cluster", {"hosts": "b", "ports": "2"}, RedisCluster((A, B))),
    ("a cluster has one database", "redis-cluster", {"databaseIndex": "7"}, RedisCluster((A,))),
    (
        "login to nodes",
        "redis-cluster-streams",
        {"username": "u", "password": "p"},
        RedisCluster((RedisServer("a", 1, 0, "u", "p"),)),
    ),
    (
        "login and database are the master's",
        "redis-sentinel",
        {"address": "a:1,b:2", "databaseIndex": "7", "username": "u", "password": "p"},
        RedisSentinel((A, B), "mymaster", RedisServer("", 0, 7, "u", "p")),
    ),
    (
        "login to sentinels",
        "redis-sentinel-streams",
        {"sentinelUsername": "u", "sentinelPassword": "p"},
        RedisSentinel((RedisServer("a", 1, 0, "u", "p"),), "mymaster", RedisServer("", 0)),
    ),
)
def test_where_to_ask(type_: str, metadata: dict[str, str], server: object) -> None:
    assert parse(type_, **metadata).server == server


@for_each(
    ("address", "MAE"),
    ("host", "MEA"),
    ("username", "MEA"),
    ("password", "MEA"),
    ("sentinelMaster", "MAE"),
    ("sentinelUsername", "MAE"),
    ("sentinelPassword", "MAE"),
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


@cases(
    ("none", {}, {}, None),
    ("switched off", {"enableTLS": "false"}, {}, None),
    ("in the metadata", {"enableTLS": "true"}, {}, TLS()),
    ("in the authentication", {}, {"tls": "enable"}, TLS()),
    ("switched off there", {}, {"tls": "disable", "ca": PEM.authority}, None),
    ("unchecked", {"unsafeSsl": "true"}, {"tls": "enable"}, TLS(verify=False)),
    ("authority", {}, {"tls": "enable", "ca": PEM.authority}, TLS(ca=PEM.authority.strip())),
    (
        "client certificate",
        {"enableTLS": "true"},
        {"Cert": PEM.client, "key": PEM.client_key, "keyPassword": "pw"},
        TLS(cert=PEM.client.strip(), key=PEM.client_key.strip(), key_password="pw"),
    ),
)
@pytest.mark.parametrize("type_", ["redis", "redis-cluster-streams"])
def test_how_tls_is_spoken(metadata: dict[str, str], authentication: dict[str, str], tls: object, type_: str) -> None:
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


@cases(
    ("length", {}, Count("work"), 5),
    ("length: lagCount needs a group", {"streamLength": "7", "lagCount": "3"}, Count("work"), 7),
    ("pending", {"consumerGroup": "g"}, Count("work", "g"), 5),
    (
        "pending: streamLength is without meaning",
        {"consumerGroup": "g", "pendingEntriesCount": "7", "streamLength": "3"},
        Count("work", "g"),
        7,
    ),
    ("lagCount 0 is none", {"consumerGroup": "g", "lagCount": "0"}, Count("work", "g"), 5),
    (
        "lag before pending",
        {"consumerGroup": "g", "lagCount": "3", "pendingEntriesCount": "7"},
        Count("work", "g", lag=True),
        3,
    ),
    ("a blank group is none", {"consumerGroup": " ", "streamLength": "2"}, Count("work"), 2),
)
def test_what_is_counted_follows_from_the_parameters(metadata: dict[str, str], question: Count, target: int) -> None:
    scaler = parse("redis-streams", activationLagCount="2", **metadata)
    assert (scaler.question, scaler.target, scaler.activation) == (question, target, 2)
    assert (scaler.metric, scaler.watched) == ("redis-streams-work", ("work",))
