"""The parameters of every trigger type: wrong ones are refused, and secrets stay hidden."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from penstock.parameters import SettingsError, Trigger
from scalers.scaler_registry import REGISTRY
from scalers.sources.celery.tasks import CeleryTasks
from scalers.sources.events.push import Push
from scalers.sources.messaging.kafka import Kafka
from scalers.sources.tls import TLS
from tests.integration.scalers.every_trigger import EXAMPLES, MARKER, Example
from tests.support.certificates import certificates
from tests.support.tables import cases, for_each
from tests.unit.scalers import malformed

#: A trigger that is right, by type.
GOOD: dict[str, Example] = dict(
    sorted(
        {
            **EXAMPLES,
            "cpu": Example({"value": "500m", "containerName": "main"}),
            "cron": Example({"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "3"}),
            "memory": Example({"value": "500Mi"}),
        }.items()
    )
)


def good(type_: str) -> Trigger:
    return GOOD[type_].trigger(type_, 5672)


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


def but(type_: str, changes: Mapping[str, str | None]) -> Trigger:
    """The good trigger of a type with changes: `@name` is of the authentication, and None takes a parameter away."""
    trigger = good(type_)
    texts = {**trigger.metadata, **{f"@{name}": text for name, text in trigger.authentication.items()}, **changes}
    given = {name: text for name, text in texts.items() if text is not None}
    return replace(
        trigger,
        metadata={name: text for name, text in given.items() if name[0] != "@"},
        authentication={name[1:]: text for name, text in given.items() if name[0] == "@"},
    )


PEM = certificates()
SHOWN = {"@cert": PEM.client, "@key": PEM.client_key}
REDISS, AMQP = {"broker": "rediss://a"}, {"broker": "amqp://u:hush@rabbit/work"}
OVER_AMQP, NO_LOGIN = {"host": "amqp://a:5672/v"}, {"@username": None, "@password": None}
MODE, ASKED = {"mode": "QueueLength", "value": "1"}, {"authModes": "basic,bearer", "@username": "some-user"}
APP, NO_TOKEN = {"applicationID": "42", "installationID": "7"}, {"@personalAccessToken": None}
PARTS, NO_URI = {"host": "a", "port": "1", "username": "u"}, {"@connectionString": None}
LIMIT, EVEN = {"limitToPartitionsWithLag": "true"}, {"ensureEvenDistributionOfPartitions": "true"}
TOKENS = {**NO_LOGIN, "@oauthTokenURI": "http://t", "@clientID": "me", "@clientSecret": "hush-hush"}
HTTPS = {"serverAddress": "https://a"}
SAID_TWICE = {"enableTLS": "false", "@tls": "disable"}

#: What a type checks beyond types and bounds: what is changed, the parameter that is named, and part of the complaint.
INCONSISTENT: dict[str, dict[str, tuple[Mapping[str, str | None], str, str]]] = {
    "celery": {
        "no scheme": ({"broker": "a:1"}, "broker", "must be a URL"),
        "no host": ({"broker": "redis://"}, "broker", "must be a URL"),
        "no port": ({"broker": "redis://a:many"}, "broker", "must be a URL"),
        "a socket": ({"broker": "redis+socket:///tmp/x"}, "broker", "must be a URL"),
        "half an address": ({"broker": "redis://[a"}, "broker", "must be a URL"),
        "two kinds": ({"broker": "redis://a;amqp://b"}, "broker", "must be a URL"),
        "two servers": ({"broker": "redis://a;redis://b"}, "broker", "one server"),
        "no number": ({"broker": "redis://a/work"}, "broker", "number of a database"),
        "below 0": ({"broker": "redis://a/-1"}, "broker", "number of a database"),
        "which master?": ({"broker": "sentinel://a"}, "sentinelMaster", "come together"),
        "a master without sentinels": ({"sentinelMaster": "m"}, "sentinelMaster", "come together"),
        "Redis has no plugin": ({"management": "http://a"}, "management", "RabbitMQ only"),
        "a queue without a name": ({"queues": "a,,b"}, "queues", "names of queues"),
        "a step that is none": ({"prioritySteps": "0,x"}, "prioritySteps", "whole numbers"),
        "a step below 0": ({"prioritySteps": "-1"}, "prioritySteps", "whole numbers"),
        "RabbitMQ: etas": ({**AMQP, "countFutureTasks": "false"}, "countFutureTasks", "Redis only"),
        "RabbitMQ: prefix": ({**AMQP, "globalKeyprefix": "x"}, "globalKeyprefix", "Redis only"),
        "RabbitMQ: steps": ({**AMQP, "prioritySteps": "0"}, "prioritySteps", "Redis only"),
        "RabbitMQ: separator": ({**AMQP, "separator": ":"}, "separator", "Redis only"),
        "RabbitMQ: unacked": ({**AMQP, "unackedKey": "x"}, "unackedKey", "Redis only"),
        "a plugin nowhere": ({**AMQP, "management": "rabbit:15672"}, "management", "must be a URL"),
        "a plugin without host": ({**AMQP, "management": "http://"}, "management", "must be a URL"),
        "a certificate without its key": ({"@cert": "no-pem"}, "key", "come together"),
        "a key without its certificate": ({"@key": "no-pem"}, "cert", "come together"),
        "no certificate": ({**REDISS, "@ca": "no-pem"}, "ca", "is not a certificate"),
        "an authority without TLS": ({"@ca": PEM.authority}, "ca", "is of no use without a rediss:// broker"),
        "a file of another machine": (
            {"broker": "rediss://a?ssl_ca_certs=/a.pem"},
            *("broker", "ssl_ca_certs is not supported: give ca, cert and key"),
        ),
        "RabbitMQ: no certificate": ({"broker": "amqps://a", "@ca": "no-pem"}, "ca", "is not a certificate"),
        "RabbitMQ: a client's": ({**AMQP, "@cert": "no-pem", "@key": "no-pem"}, "cert", "Redis only"),
    },
    "cron": {
        "unknown zone": ({"timezone": "Mars/Base"}, "timezone", "Mars/Base"),
        "four fields": ({"start": "0 8 * *"}, "start", "expected exactly 5 fields"),
        "an hour too many": ({"end": "0 25 * * *"}, "end", "above maximum"),
        "30 February": ({"start": "0 0 30 2 *"}, "start", "never fires"),
        "a descriptor": ({"start": "@daily"}, "start", "five fields"),
        "a descriptor behind a zone": ({"start": "TZ=UTC @daily"}, "start", "five fields"),
        "a zone inside that is none": ({"end": "TZ=Mars/Base 0 8 * * *"}, "end", "Mars/Base"),
        "start and end are the same": ({"end": " 0 8 * *  *"}, "end", "must differ"),
    },
    "elasticsearch": {
        "neither query nor template": ({"query": None}, "query", "exactly one of"),
        "query is no JSON": ({"query": "{"}, "query", "in JSON"),
        "no login": (NO_LOGIN, "username", "required with"),
        "nowhere": ({"addresses": None}, "addresses", "is required"),
        "a path": ({"valueLocation": "a.@flatten.0"}, "valueLocation", "a.@flatten.0: modifiers"),
    },
    "etcd": {
        "an empty endpoint": ({"endpoints": "a:1,,b:2"}, "endpoints", "must be addresses"),
        "TLS and http": (
            {"@tls": "enable", "endpoints": "http://a:1"},
            "endpoints",
            "must not begin with http:// where TLS",
        ),
        "an authority without TLS": ({"@ca": PEM.authority}, "ca", "is of no use without tls: enable"),
        "a user without a password": ({"@password": None}, "username", "and password must come together"),
        "a certificate without a key": ({"@tls": "enable", "@cert": "no-pem"}, "key", "must come together"),
    },
    "external": {
        "no check of a name that gRPC looks up": (
            {"scalerAddress": "dns:///scaler:1", "enableTLS": "true", "unsafeSsl": "true"},
            *("unsafeSsl", "needs an address"),
        ),
        "no key": ({"@tlsClientCert": "no-pem"}, "tlsClientCert", "must come together"),
        "no certificate": ({"@tlsClientKey": "no-pem"}, "tlsClientCert", "must come together"),
        "no authority": ({"@caCert": "no-pem"}, "caCert", "is not a certificate"),
        "no PEM": ({"@tlsClientCert": "#", "@tlsClientKey": "%"}, "tlsClientCert", "cannot be used"),
    },
    "github-runner": {
        "nobody asks": (NO_TOKEN, "personalAccessToken", "is required, or appKey"),
        "an app without a key": (APP, "appKey", "is required of a GitHub app"),
        "not installed": ({"@appKey": "no-pem", "applicationID": "1"}, "installationID", "is required"),
        "no application": ({"@appKey": "no-pem", "installationID": "1"}, "applicationID", "is required"),
        "no key": ({"@appKey": "no-pem", **APP}, "appKey", "is not a private RSA key"),
        "nowhere": ({"githubApiURL": "api"}, "githubApiURL", "must be a URL"),
    },
    "graphite": {"another login": ({"authModes": "bearer", "@token": "hush-hush"}, "authModes", "basic")},
    "influxdb": {"2: no organization": ({"organizationName": None}, "organizationName", "is required by")},
    "apache-kafka": {
        "no address": ({"bootstrapServers": "a:1,,"}, "bootstrapServers", "must be addresses"),
        "no partitions": ({"partitionLimitation": "a"}, "partitionLimitation", "must be partitions"),
        "limit, all topics": ({**LIMIT, "topic": None}, "limitToPartitionsWithLag", "needs a topic"),
        "even, all topics": ({**EVEN, "topic": None}, "ensureEvenDistributionOfPartitions", "needs a topic"),
        "limit and even": ({**LIMIT, **EVEN}, "limitToPartitionsWithLag", "exclude each other"),
        "limit, idle": ({**LIMIT, "allowIdleConsumers": "true"}, "limitToPartitionsWithLag", "exclude each other"),
        "a login that is missing": ({"sasl": "gssapi"}, "sasl", "gssapi is not supported"),
        "a login that nobody knows": ({"sasl": "magic"}, "sasl", "must be one of none, plaintext"),
        "no password": ({"@password": None}, "password", "is required by sasl"),
        "no user": ({"@username": None}, "username", "is required by sasl"),
        "no key": ({"@cert": "no-pem"}, "key", "must come together"),
        "no authority": ({"@ca": "no-pem", "tls": "enable"}, "ca", "is not a certificate"),
        "an authority without TLS": ({"@ca": PEM.authority}, "ca", "is of no use without tls: enable"),
        "a certificate without TLS": (SHOWN, "cert", "is of no use without tls: enable"),
    },
    "kubernetes-resource": {
        "JSON without a place": ({"format": "json"}, "valueLocation", "is required by"),
        "a place in a number": ({"valueLocation": "a"}, "valueLocation", "has no meaning with"),
        "a path": ({"format": "json", "valueLocation": "a.@flatten.0"}, "valueLocation", "a.@flatten.0: modifiers"),
    },
    "metrics-api": {
        "no selector": ({"format": "prometheus", "valueLocation": "a{b=c}"}, "valueLocation", "must be a metric"),
        "aggregation": ({"aggregateFromKubeServiceEndpoints": "true"}, "url", "must name a Service"),
        "a path": ({"valueLocation": "a.@flatten.0"}, "valueLocation", "a.@flatten.0: modifiers"),
    },
    "mongodb": {
        "nowhere": (NO_URI, "host", "is required, or connectionString"),
        "no port": ({**NO_URI, **PARTS, "port": None, "@password": "hush-hush"}, "port", "is required"),
        "no password": ({**NO_URI, **PARTS}, "password", "is required"),
        "not a URI": ({"@connectionString": "redis://hush-hush"}, "connectionString", "does not name"),
        "no JSON": ({"query": "{"}, "query", "must be a JSON document"),
        "a list": ({"query": "[1]"}, "query", "must be a JSON document"),
        "no key": ({"@cert": "no-pem"}, "key", "must come together"),
        "no authority": ({"@tls": "enable", "@ca": "no-pem"}, "ca", "certificate"),
        "an authority without TLS": ({"@ca": PEM.authority}, "ca", "is of no use without tls: enable"),
    },
    "mysql": {
        "nowhere": (NO_URI, "host", "is required, or connectionString"),
        "TLS by a name": ({"@connectionString": "u:hush@tcp(h)/d?tls=ours"}, "connectionString", "tls=ours names"),
        "a server's key": (
            {"@connectionString": "u:hush@tcp(h)/d?serverPubKey=k"},
            *("connectionString", "the option serverPubKey is not supported"),
        ),
        "no native passwords": (
            {"@connectionString": "u:hush@tcp(h)/d?allowNativePasswords=false"},
            *("connectionString", "allowNativePasswords=false is not supported"),
        ),
        "an authority": ({"@ca": PEM.authority}, "ca", "of the authentication is not honoured by this type"),
        "no DSN": ({"@connectionString": "u:hush@tcp(h"}, "connectionString", "must be user:password@tcp"),
        "no port": (
            {**NO_URI, **PARTS, "port": "x", "dbName": "d", "@password": "hush-hush"},
            "port",
            "must be a port",
        ),
    },
    "postgresql": {
        "nowhere": ({"@connection": None}, "host", "is required, or connection"),
        "sslmode beside a connection string": ({"sslmode": "verify-full"}, "sslmode", "write it into connection"),
        "a switch of TLS": ({"@tls": "enable"}, "tls", "of the authentication is not honoured by this type"),
        "no connection string": ({"@connection": "host==h hush"}, "connection", "is not a connection string"),
        "an option of Go's": (
            {"@connection": "postgres://u:hush@h/d?default_query_exec_mode=exec"},
            "connection",
            "has the option default_query_exec_mode, which is none of libpq",
        ),
    },
    "prometheus": {
        "no URL": ({"serverAddress": "nowhere"}, "serverAddress", "must be a URL"),
        "no HTTP": ({"serverAddress": "ftp://x"}, "serverAddress", "must be a URL"),
        "no port": ({"serverAddress": "http://x:99999"}, "serverAddress", "must be a URL"),
        "a word as port": ({"serverAddress": "http://x:web"}, "serverAddress", "must be a URL"),
        "no URL of tokens": ({"@oauthTokenURI": "tokens.example"}, "oauthTokenURI", "must be a URL"),
        "unknown mode": ({"authModes": "magic"}, "authModes", "magic is none of"),
        "two modes that exclude each other": (ASKED, "authModes", "exclude each other"),
        "a certificate over http": ({"authModes": "tls", **SHOWN}, "authModes", "tls needs a URL with https"),
        "basic without a user": ({"authModes": "basic"}, "username", "is required by"),
        "a user with a colon": ({"authModes": "basic", "@username": "a:b"}, "username", "must have no colon"),
        "no token": ({"@bearerToken": None}, "bearerToken", "is required by"),
        "tls without a key": ({**HTTPS, "authModes": "tls", "@cert": "no-pem"}, "key", "is required by"),
        "no PEM": ({**HTTPS, "authModes": "tls", "@cert": "#", "@key": "%"}, "cert", "and key cannot be used"),
        "ca is no certificate": ({**HTTPS, "@ca": "no-pem"}, "ca", "in PEM form"),
        "an authority over http": ({"@ca": PEM.authority}, "ca", "is of no use without a URL with https"),
        "oauth": ({"authModes": "oauth"}, "oauthTokenURI", "is required by"),
    },
    "push": {"a host without port": ({"host": "a"}, "host", "as many hosts as ports")},
    "rabbitmq": {
        "no URL": ({"host": "rabbit:5672"}, "host", "must be a URL"),
        "a mode without a value": ({"mode": "QueueLength"}, "mode", "and value must come together"),
        "a value without a mode": ({"value": "5"}, "mode", "and value must come together"),
        "both spellings": ({**MODE, "queueLength": "1"}, "queueLength", "is the older spelling"),
        "TLS over http": ({"@tls": "enable"}, "tls", "needs a host with https:// or amqps://"),
        "an authority without TLS": ({**OVER_AMQP, "@ca": PEM.authority}, "ca", "is of no use without tls: enable"),
        "a file of another machine": (
            {"host": "amqps://a/?cacertfile=/a.pem"},
            *("host", "cacertfile is not supported: give ca, cert and key"),
        ),
        "a rate over AMQP": ({**OVER_AMQP, **MODE, "mode": "MessageRate"}, "mode", "over http only"),
        "a pattern over AMQP": ({**OVER_AMQP, "useRegex": "true"}, "useRegex", "over http only"),
        "only ready ones over AMQP": (
            {**OVER_AMQP, "excludeUnacknowledged": "true"},
            *("excludeUnacknowledged", "over http only"),
        ),
        "tokens without a client": ({**NO_LOGIN, "@oauthTokenURI": "http://t"}, "clientID", "is required by"),
        "tokens without a secret": ({**TOKENS, "@clientSecret": None}, "clientSecret", "is required by"),
        "tokens from nowhere": ({**TOKENS, "@oauthTokenURI": None}, "oauthTokenURI", "is required by"),
        "no key": ({"@cert": PEM.client}, "key", "must come together"),
        "a certificate without TLS": ({"host": "https://a/", **SHOWN}, "cert", "is of no use without tls: enable"),
    },
    "redis": {
        "no address": ({"address": None}, "address", "is required, or host and port"),
        "no port": ({"address": "redis.example"}, "address", "must be host:port"),
        "a URL": ({"address": "redis://redis.example:6379"}, "address", "must be host:port"),
        "port is no number": ({"address": "a:many"}, "address", "must be host:port"),
        "a digit that is none": ({"address": "a:²"}, "address", "must be host:port"),
        "port too high": ({"address": "a:70000"}, "address", "must be host:port"),
        "host without port": ({"address": None, "host": "h"}, "host", "as many hosts as ports"),
        "a port is missing": ({"hosts": "a,b", "ports": "1"}, "host", "as many hosts as ports"),
        "an authority without TLS": ({"@ca": PEM.authority}, "ca", "is of no use without enableTLS or tls: enable"),
        "said twice": (SAID_TWICE, "enableTLS", "must not be given together with tls of the authentication"),
        "no key": ({"@cert": PEM.client}, "key", "must come together"),
        "no certificate": ({"@key": PEM.client_key}, "cert", "must come together"),
        "no authority": ({"@tls": "enable", "@ca": "nonsense"}, "ca", "is not a certificate"),
        "nonsense": ({"@tls": "enable", "@cert": "no-pem", "@key": "no-pem"}, "cert", "and key cannot be used"),
        "no pair": ({"@tls": "enable", **SHOWN, "@key": PEM.server_key}, "cert", "and key cannot be used"),
    },
    "redis-cluster": {
        "a node without a port": ({"address": "a:1,b"}, "address", "must be host:port"),
        "an empty node": ({"address": "a:1,"}, "address", "must be host:port"),
    },
    "redis-sentinel": {"no address": ({"address": None}, "address", "is required, or host and port")},
}
INCONSISTENT["kafka"] = INCONSISTENT["apache-kafka"]


@pytest.mark.parametrize(
    ("type_", "changes", "field", "complaint"),
    [
        pytest.param(type_, *row, id=f"{type_} {name}")
        for type_, rows in INCONSISTENT.items()
        for name, row in rows.items()
    ],
)
def test_what_does_not_go_together_is_refused(
    type_: str, changes: Mapping[str, str | None], field: str, complaint: str
) -> None:
    malformed.refused(REGISTRY.find(type_), but(type_, changes), field, complaint)


@pytest.mark.parametrize("type_", GOOD)
def test_no_text_of_a_scaler_shows_a_secret(type_: str) -> None:
    malformed.tells_no_secret(REGISTRY.find(type_), good(type_))


@for_each(
    ("external", "grpc", "external"),
    ("kafka", "aiokafka", "kafka"),
    ("mongodb", "pymongo", "mongodb"),
    ("mysql", "aiomysql", "mysql"),
    ("postgresql", "psycopg", "postgresql"),
)
def test_a_missing_library_is_named(type_: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError, match=rf"pip install 'penstock\[{extra}\]'"):
        REGISTRY.find(type_).parse(good(type_))


CLOUD: dict[str, str | None] = {
    **{"addresses": None, "cloudID": "mine:bG9jYWxob3N0OjkyNDMkYWJjJGtpYmFuYQ==", "@apiKey": "hush-hush"},
    **{"query": None, "searchTemplateName": "t"},
}
INFLUX_3 = {"organizationName": None, "influxVersion": "3", "database": "d", "metricKey": "m"}


@for_each(
    ("prometheus", {"threshold": "2.5"}, "prometheus", 2.5),
    ("loki", {"tenantName": "a"}, "loki", 1),
    ("graphite", {}, "graphite", 100),
    ("metrics-api", {"valueLocation": "a.b", "targetValue": "5"}, "metric-api-a.b", 5),
    ("elasticsearch", {}, "elasticsearch-query", 1),
    ("elasticsearch", CLOUD, "elasticsearch-t", 1),
    ("opensearch", {}, "opensearch-query", 1),
    ("influxdb", {"thresholdValue": "2"}, "influxdb-o", 2),
    ("influxdb", INFLUX_3, "influxdb-d", 1),
    ("apache-kafka", {"topic": "t,u"}, "kafka-t,u", 10),
    ("kafka", {}, "kafka-t", 10),
    ("apache-kafka", {"topic": None}, "kafka-g-topics", 10),
    ("kafka", {"topic": None, "version": "1.0.0"}, "kafka-g-topics", 10),
)
def test_names_and_targets(type_: str, changes: Mapping[str, str | None], metric: str, target: float) -> None:
    parsed: Any = REGISTRY.find(type_).parse(but(type_, changes))
    assert (parsed.metric, parsed.target) == (metric, target)
    assert "hush" not in f"{parsed!r} {parsed.server} {parsed.server!r}"


@for_each(("plaintext", "PLAIN"), ("scram_sha256", "SCRAM-SHA-256"), ("scram_sha512", "SCRAM-SHA-512"))
@for_each(("enable", "SASL_SSL"), ("disable", "SASL_PLAINTEXT"))
def test_how_kafka_logs_in(tls: str, protocol: str, sasl: str, mechanism: str) -> None:
    server = Kafka.parse(but("kafka", {"sasl": sasl, "tls": tls, "@password": "hush-hush"})).server
    options = server.options()
    assert (options["security_protocol"], options["sasl_mechanism"]) == (protocol, mechanism)
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("some-user", "hush-hush")
    assert (options["ssl_context"] is not None) == (tls == "enable")
    assert "hush" not in f"{server} {server!r}"


@for_each(
    ("", None),
    ("?tls=false&timeout=5s&parseTime=true", None),
    ("?timeout=5s&tls=true", TLS()),
    ("?tls=TRUE", TLS()),
    ("?tls=skip-verify", TLS(verify=False)),
    ("?tls=preferred", TLS(verify=False)),
)
def test_tls_of_a_mysql_connection_string(options: str, tls: TLS | None) -> None:
    trigger = but("mysql", {"@connectionString": f"u:hush@tcp(h:1)/d{options}"})
    server: Any = REGISTRY.find("mysql").parse(trigger).server
    assert (server.host, server.name, server.tls, server.tls_if_possible) == ("h", "d", tls, "preferred" in options)


@for_each("kafka", "mongodb", "redis", "rabbitmq", "etcd")
def test_certificates_are_ignored_where_tls_is_expressly_off(type_: str) -> None:
    changes = {"@tls": "disable", "@ca": PEM.authority, **(OVER_AMQP if type_ == "rabbitmq" else {})}
    REGISTRY.find(type_).parse(but(type_, changes))


#: Complaints of the table above about rows that KEDA takes.
_NO_EFFECT = "is of no use|of the authentication|tls needs|needs a host|must not begin|[a-z_]+ is not supported: give"
IGNORED = [
    pytest.param(type_, changes, id=f"{type_} {name}")
    for type_, rows in INCONSISTENT.items()
    for name, (changes, _, complaint) in rows.items()
    if re.match(_NO_EFFECT, complaint)
]


@pytest.mark.parametrize(("type_", "changes"), IGNORED)
def test_kedas_way_ignores_options_about_tls_that_have_no_effect(type_: str, changes: Mapping[str, str | None]) -> None:
    REGISTRY.find(type_).parse(replace(but(type_, changes), quirks="ignored-trust"))


def test_there_are_options_to_ignore() -> None:
    assert {row.values[0] for row in IGNORED} >= {
        "celery",
        "etcd",
        "kafka",
        "mongodb",
        "mysql",
        "postgresql",
        "rabbitmq",
    }


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        *(("prometheus", name) for name in ("awsRegion", "identityOwner", "@awsAccessKeyID", "credentialsFromEnv")),
        *(("apache-kafka", name) for name in ("awsRegion", "identityOwner", "@awsRoleArn")),
        *(("kafka", name) for name in ("awsRegion", "saslTokenProvider", "@keytab", "@oauthExtensions")),
        *(("opensearch", name) for name in ("enableTLS", "@caCert", "@clientCert", "@clientKey")),
        *(("cpu", "type"), ("memory", "type"), ("rabbitmq", "@workloadIdentityResource")),
    ],
)
@cases(("ours", ""), ("lenient", "unknown-parameters,ignored-trust"))
def test_kedas_parameters_that_are_not_supported_are_not_called_unknown(quirks: str, type_: str, name: str) -> None:
    trigger = replace(but(type_, {name: "something"}), quirks=quirks)
    malformed.refused(REGISTRY.find(type_), trigger, name.removeprefix("@"), "is KEDA's and not supported here")


OAUTH = {"authModes": "oauth", "@oauthTokenURI": "http://t", "@clientID": "me", "@scope": "a,b"}
FROM_ENV = {"@username": None, "@password": None, "usernameFromEnv": "TOKEN", "passwordFromEnv": "TOKEN"}


@for_each(
    ("metrics-api", {"@apiKey": None, "apiKey": "k"}, "api_key", SecretStr("k")),
    ("metrics-api", {"authMode": None, "@authModes": "apiKey"}, "modes", ("apiKey",)),
    ("prometheus", OAUTH, "scopes", ("a", "b")),
    ("mongodb", {**NO_URI, "connectionString": "mongodb://u:hush@a:1/x"}, "patience", 10.0),
    ("mongodb", {**NO_URI, **PARTS, "password": "hush"}, "password", SecretStr("hush")),
    ("etcd", FROM_ENV, "username", f"{MARKER}-variable"),
    ("elasticsearch", {"query": None, "@query": "{}"}, "query", "{}"),
    ("kafka", {"fullMetadata": "true"}, "full_metadata", True),
)
def test_parameters_come_from_every_source_that_keda_reads(
    type_: str, changes: Mapping[str, str | None], field: str, value: object
) -> None:
    assert getattr(REGISTRY.find(type_).parse(but(type_, changes)), field) == value
