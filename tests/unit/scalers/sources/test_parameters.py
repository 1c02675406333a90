"""The parameters of every trigger type: wrong ones are refused, and secrets stay hidden."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.celery.tasks import CeleryTasks
from scalers.sources.events.push import Push
from scalers.trigger_types import REGISTRY
from tests.unit.scalers import malformed

WEB = {"serverAddress": "http://127.0.0.1:9090", "query": "q", "threshold": "2"}
CLUSTER = {"bootstrapServers": "a:9092, b:9092", "consumerGroup": "g", "topic": "t"}
SEARCH = {"addresses": "http://127.0.0.1:9200", "index": "a", "query": "{}", "valueLocation": "x", "targetValue": "1"}
LOGIN = {"username": "hush-hush", "password": "hush"}
LIST, STREAM, MASTER = {"listName": "work"}, {"stream": "work"}, {"sentinelMaster": "mymaster"}

#: The metadata and the authentication of a trigger that is right, by type.
GOOD: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "apache-kafka": (CLUSTER, {}),
    "celery": ({"broker": "redis://:hush@a:1/2"}, {}),
    "cpu": ({"value": "500m", "containerName": "main"}, {}),
    "cron": ({"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "3"}, {}),
    "elasticsearch": (SEARCH, LOGIN),
    "etcd": ({"endpoints": "a:2379", "watchKey": "k", "value": "5"}, {}),
    "external": ({"scalerAddress": "scaler.team:9090"}, {}),
    "external-push": ({"scalerAddress": "scaler.team:9090"}, {}),
    "github-runner": ({"owner": "acme/x", "runnerScope": "org"}, {"personalAccessToken": "hush"}),
    "graphite": ({**WEB, "queryTime": "-1Hours"}, {}),
    "influxdb": (
        {"serverURL": "http://a:8086", "query": "q", "thresholdValue": "2", "organizationName": "o"},
        {"authToken": "hush"},
    ),
    "kafka": (CLUSTER, {}),
    "kubernetes-resource": ({"resourceKind": "Secret", "resourceName": "n", "key": "k", "targetValue": "1"}, {}),
    "kubernetes-workload": ({"podSelector": "app=a", "value": "1"}, {}),
    "loki": (WEB, {}),
    "memory": ({"value": "500Mi"}, {}),
    "metrics-api": ({"url": "http://a:8080/x", "valueLocation": "a.b", "targetValue": "5"}, {}),
    "mongodb": (
        {"collection": "jobs", "query": "{}", "queryValue": "5", "dbName": "shop"},
        {"connectionString": "mongodb://u:hush@a:1/x"},
    ),
    "mysql": ({"query": "q", "queryValue": "5"}, {"connectionString": "u:hush@tcp(a:1)/x"}),
    "nats-jetstream": ({"natsServerMonitoringEndpoint": "a:8222", "stream": "s", "consumer": "c"}, {}),
    "opensearch": (SEARCH, LOGIN),
    "postgresql": ({"query": "q", "targetQueryValue": "5"}, {"connection": "host=a password=hush"}),
    "prometheus": (WEB, {}),
    "push": ({"address": "a:1"}, {}),
    "rabbitmq": ({"host": "amqp://a:5672/v", "queueName": "q"}, {}),
    "redis": ({"address": "a:1", **LIST}, {}),
    "redis-cluster": ({"address": "a:1", **LIST}, {}),
    "redis-cluster-streams": ({"address": "a:1", **STREAM}, {}),
    "redis-sentinel": ({"address": "a:1", **LIST, **MASTER}, {}),
    "redis-sentinel-streams": ({"address": "a:1", **STREAM, **MASTER}, {}),
    "redis-streams": ({"address": "a:1", **STREAM}, {}),
}


def good(type_: str) -> Trigger:
    metadata, authentication = GOOD[type_]
    return Trigger(
        3, type_, metadata=metadata, authentication=authentication, namespace="team", owner="work", prefix="penstock"
    )


def test_the_table_has_every_type() -> None:
    assert tuple(GOOD) == REGISTRY.known()
    assert (REGISTRY.find("celery"), REGISTRY.find("push")) == (CeleryTasks, Push)


def wrong() -> Iterator[Any]:
    for type_ in GOOD:
        for row in malformed.rows(REGISTRY.find(type_), good(type_)):
            # Unknown metadata of an external scaler are for its server.
            if not (type_.startswith("external") and "is not a parameter" in row.values[2]):
                yield pytest.param(type_, *row.values, id=f"{type_} {row.id}")


@pytest.mark.parametrize(("type_", "trigger", "field", "complaint"), list(wrong()))
def test_wrong_settings_are_refused(type_: str, trigger: Trigger, field: str, complaint: str) -> None:
    malformed.refused(REGISTRY.find(type_), trigger, field, complaint)


@pytest.mark.parametrize("type_", GOOD)
def test_no_text_of_a_scaler_shows_a_secret(type_: str) -> None:
    malformed.tells_no_secret(REGISTRY.find(type_), good(type_))


@pytest.mark.parametrize(
    ("type_", "module", "extra"),
    [
        ("external", "grpc", "external"),
        ("kafka", "aiokafka", "kafka"),
        ("mongodb", "pymongo", "mongodb"),
        ("mysql", "aiomysql", "mysql"),
        ("postgresql", "psycopg", "postgresql"),
    ],
)
def test_a_missing_library_is_named(type_: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError, match=rf"pip install 'penstock\[{extra}\]'"):
        REGISTRY.find(type_).parse(good(type_))
