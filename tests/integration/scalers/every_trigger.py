"""A trigger of every type that asks a server, with a secret wherever it may have one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.parameters import Trigger

#: In every secret.
MARKER = "hunter2-and-more"

#: The user of every login.
USER = "some-user"

#: Types that ask nobody.
ALONE = frozenset({"cpu", "cron", "memory"})

_REDIS = {"password": f"{MARKER}-pw"}
_LOGIN = {"username": USER, "password": f"{MARKER}-pw"}
_WEB = {"authModes": "bearer"}
_TOKEN = {"bearerToken": f"{MARKER}-token"}


@dataclass(frozen=True, slots=True)
class Example:
    """Metadata and authentication; ``<at>`` stands for the server's host and port."""

    metadata: Mapping[str, str]
    authentication: Mapping[str, str] = field(default_factory=dict)

    def trigger(self, type_: str, port: int) -> Trigger:
        """As a trigger of a server on loopback."""

        def filled(texts: Mapping[str, str]) -> dict[str, str]:
            return {key: text.replace("<at>", f"127.0.0.1:{port}") for key, text in texts.items()}

        return Trigger(
            index=4,
            type=type_,
            metadata=filled(self.metadata),
            authentication=filled(self.authentication),
            environment={"TOKEN": f"{MARKER}-variable"},
            namespace="team",
            owner="work",
            broker=f"redis://:{MARKER}@127.0.0.1:{port}/0",
            prefix="p",
        )


_PATH = {"valueLocation": 'v.#(n=="x").v'}
_KAFKA = {"bootstrapServers": "<at>", "consumerGroup": "g", "topic": "t", "sasl": "plaintext"}
_SEARCH = {"addresses": "http://<at>", "index": "i", "query": "{}", "targetValue": "1", **_PATH}
_INFLUX = {"serverURL": "http://<at>", "query": "q", "thresholdValue": "1"}
_INFLUX_TOKEN = {"authToken": f"{MARKER}-token"}
_SENTINEL = {"address": "<at>", "sentinelMaster": "m"}
_SENTINELS = {**_REDIS, "sentinelPassword": f"{MARKER}-sentinel"}
_STREAM = {"stream": "s", "consumerGroup": "g", "lagCount": "1"}

EXAMPLES: Mapping[str, Example] = {
    "apache-kafka": Example(_KAFKA, _LOGIN),
    "celery": Example({}, {"broker": f"redis://:{MARKER}-pw@<at>/0"}),
    "elasticsearch": Example(_SEARCH, _LOGIN),
    "etcd": Example({"endpoints": "<at>", "watchKey": "k", "value": "1"}, _LOGIN),
    "external": Example({"scalerAddress": "<at>", "wordFromEnv": "TOKEN"}),
    "external-push": Example({"scalerAddress": "<at>", "wordFromEnv": "TOKEN"}),
    "github-runner": Example(
        {"githubApiURL": "http://<at>", "owner": "o", "runnerScope": "repo", "repos": "r", "timeout": "1s"},
        {"personalAccessToken": f"{MARKER}-token"},
    ),
    "graphite": Example(
        {"serverAddress": "http://<at>", "query": "q", "queryTime": "-1Hours", "authMode": "basic"}, _LOGIN
    ),
    "influxdb": Example({**_INFLUX, "organizationName": "o"}, _INFLUX_TOKEN),
    "kafka": Example(_KAFKA, _LOGIN),
    "kubernetes-resource": Example({"resourceKind": "Secret", "resourceName": "r", "key": "k", "targetValue": "1"}),
    "kubernetes-workload": Example({"podSelector": "a=b", "value": "1"}),
    "loki": Example({"serverAddress": "http://<at>", "query": "q", "threshold": "1", **_WEB}, _TOKEN),
    "metrics-api": Example(
        {"url": "http://<at>/v?y=1", "targetValue": "1", "authMode": "apiKey", "method": "query", **_PATH},
        {"apiKey": f"{MARKER}-key"},
    ),
    "mongodb": Example(
        {"collection": "c", "query": "{}", "queryValue": "1", "dbName": "d"},
        {"connectionString": f"mongodb://u:{MARKER}-pw@<at>/d"},
    ),
    "mysql": Example({"query": "SELECT 1", "queryValue": "1"}, {"connectionString": f"u:{MARKER}-pw@tcp(<at>)/d"}),
    "nats-jetstream": Example({"natsServerMonitoringEndpoint": "<at>", "stream": "s", "consumer": "c"}),
    "opensearch": Example(_SEARCH, _LOGIN),
    "postgresql": Example(
        {"query": "SELECT 1", "targetQueryValue": "1"}, {"connection": f"postgresql://u:{MARKER}-pw@<at>/d"}
    ),
    "prometheus": Example({"serverAddress": "http://<at>", "query": "q", "threshold": "1", **_WEB}, _TOKEN),
    "push": Example({}),
    "rabbitmq": Example({"host": "http://<at>/", "queueName": "q"}, _LOGIN),
    "redis": Example({"address": "<at>", "listName": "l"}, _REDIS),
    "redis-cluster": Example({"addresses": "<at>", "listName": "l"}, _REDIS),
    "redis-cluster-streams": Example({"addresses": "<at>", **_STREAM}, _REDIS),
    "redis-sentinel": Example({**_SENTINEL, "listName": "l"}, _SENTINELS),
    "redis-sentinel-streams": Example({**_SENTINEL, **_STREAM}, _SENTINELS),
    "redis-streams": Example({"address": "<at>", **_STREAM}, _REDIS),
}

#: Further ways of a type to ask.
OTHERS: Mapping[str, tuple[str, Example]] = {
    "celery on RabbitMQ": (
        "celery",
        Example({"management": "http://<at>"}, {"broker": f"amqp://u:{MARKER}-pw@<at>//"}),
    ),
    "influxdb 3": (
        "influxdb",
        Example({**_INFLUX, "influxVersion": "3", "database": "d", "metricKey": "m"}, _INFLUX_TOKEN),
    ),
    "metrics-api with basic": (
        "metrics-api",
        Example({"url": "http://<at>/v", "valueLocation": "v", "targetValue": "1", "authMode": "basic"}, _LOGIN),
    ),
    "prometheus with oauth": (
        "prometheus",
        Example(
            {"serverAddress": "http://<at>", "query": "q", "threshold": "1", "authModes": "oauth"},
            {"oauthTokenURI": "http://<at>/token", "clientID": "c", "clientSecret": f"{MARKER}-client"},
        ),
    ),
    "rabbitmq over AMQP": ("rabbitmq", Example({"host": "amqp://<at>/", "queueName": "q"}, _LOGIN)),
}
