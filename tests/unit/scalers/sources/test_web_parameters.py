"""What the triggers that ask over HTTP accept and refuse, by trigger and parameter."""

import pytest

from penstock.parameters import SettingsError, Trigger
from penstock.scaler import Scaler
from scalers.sources.http.elasticsearch import Elasticsearch, OpenSearch
from scalers.sources.http.graphite import Graphite
from scalers.sources.http.influxdb import InfluxDB
from scalers.sources.http.loki import Loki
from scalers.sources.http.metrics_api import MetricsAPI
from scalers.sources.http.prometheus import Prometheus

ADDRESS = {"serverAddress": "http://127.0.0.1:9090", "query": "q"}
API = {"url": "http://127.0.0.1:8080/x?y=1", "valueLocation": "a.b", "targetValue": "5"}
SEARCH = {"addresses": "http://127.0.0.1:9200", "index": "a;b", "valueLocation": "hits", "targetValue": "1"}
LOGIN = {"username": "u", "password": "hush"}
INFLUX = {"serverURL": "http://127.0.0.1:8086", "query": "q", "thresholdValue": "2"}

GOOD = [
    pytest.param(Prometheus, {**ADDRESS, "threshold": "2.5"}, {}, "prometheus", 2.5, id="prometheus"),
    pytest.param(Loki, {**ADDRESS, "threshold": "2", "tenantName": "a"}, {}, "loki", 2, id="loki"),
    pytest.param(Graphite, {**ADDRESS, "queryTime": "-1Hours"}, {}, "graphite", 100, id="graphite"),
    pytest.param(MetricsAPI, API, {}, "metric-api-a.b", 5, id="metrics-api"),
    pytest.param(Elasticsearch, {**SEARCH, "query": "{}"}, LOGIN, "elasticsearch-query", 1, id="elasticsearch"),
    pytest.param(
        Elasticsearch,
        {
            "cloudID": "mine:bG9jYWxob3N0OjkyNDMkYWJjJGtpYmFuYQ==",
            "index": "a",
            "valueLocation": "x",
            "targetValue": "1",
            "searchTemplateName": "t",
        },
        {"apiKey": "hush"},
        "elasticsearch-t",
        1,
        id="elasticsearch in a cloud",
    ),
    pytest.param(OpenSearch, {**SEARCH, "query": "{}"}, LOGIN, "opensearch-query", 1, id="opensearch"),
    pytest.param(
        InfluxDB, {**INFLUX, "organizationName": "o"}, {"authToken": "hush"}, "influxdb-o", 2, id="influxdb 2"
    ),
    pytest.param(
        InfluxDB,
        {**INFLUX, "influxVersion": "3", "database": "d", "metricKey": "m"},
        {"authToken": "hush"},
        "influxdb-d",
        2,
        id="influxdb 3",
    ),
]


@pytest.mark.parametrize(("scaler", "metadata", "authentication", "metric", "target"), GOOD)
def test_accepted(
    scaler: type[Scaler], metadata: dict[str, str], authentication: dict[str, str], metric: str, target: float
) -> None:
    parsed = scaler.parse(Trigger(0, "t", metadata=metadata, authentication=authentication))
    assert (parsed.metric, parsed.target) == (metric, target)
    assert "hush" not in repr(parsed) + str(parsed.server) + repr(parsed.server)


@pytest.mark.parametrize(
    ("scaler", "metadata", "authentication", "field", "message"),
    [
        pytest.param(Prometheus, {"serverAddress": "nowhere"}, {}, "serverAddress", "must be a URL", id="no URL"),
        pytest.param(Prometheus, {"serverAddress": "ftp://x"}, {}, "serverAddress", "must be a URL", id="no HTTP"),
        pytest.param(Prometheus, {"threshold": "NaN"}, {}, "threshold", "must be a number", id="not a number"),
        pytest.param(Prometheus, {"threshold": "-1"}, {}, "threshold", "must not be negative", id="negative"),
        pytest.param(Prometheus, {"threshold": "1e999"}, {}, "threshold", "must be a number", id="huge"),
        pytest.param(Prometheus, {"treshold": "1"}, {}, "treshold", "did you mean threshold", id="misspelled"),
        pytest.param(Prometheus, {"customHeaders": "a"}, {}, "customHeaders", "pairs such as", id="no pairs"),
        pytest.param(Prometheus, {"timeout": "-1s"}, {}, "timeout", "must be a duration", id="negative timeout"),
        pytest.param(Prometheus, {"ignoreNullValues": "yes"}, {}, "ignoreNullValues", "true or false", id="no truth"),
        pytest.param(Prometheus, {"authModes": "magic"}, {}, "authModes", "magic is none of", id="unknown mode"),
        pytest.param(
            Prometheus,
            {"authModes": "basic,bearer"},
            {"username": "u", "bearerToken": "t"},
            "authModes",
            "exclude each other",
            id="two modes that exclude each other",
        ),
        pytest.param(Prometheus, {"authModes": "basic"}, {}, "username", "is required by", id="basic without a user"),
        pytest.param(Prometheus, {"authModes": "bearer"}, {}, "bearerToken", "is required by", id="no token"),
        pytest.param(Prometheus, {"authModes": "tls"}, {"cert": "x"}, "key", "is required by", id="tls without a key"),
        pytest.param(
            Prometheus, {"authModes": "tls"}, {"cert": "#", "key": "%"}, "cert", "and key cannot be used", id="no PEM"
        ),
        pytest.param(Prometheus, {}, {"ca": "x"}, "ca", "PEM", id="ca is no certificate"),
        pytest.param(Prometheus, {"authModes": "oauth"}, {}, "oauthTokenURI", "is required by", id="oauth"),
        pytest.param(Graphite, {"authModes": "bearer", "queryTime": "x"}, {"token": "t"}, "authModes", "basic", id="g"),
        pytest.param(MetricsAPI, {**API, "targetValue": "0"}, {}, "targetValue", "greater than 0", id="target 0"),
        pytest.param(MetricsAPI, {**API, "format": "csv"}, {}, "format", "input should be", id="unknown format"),
        pytest.param(
            MetricsAPI,
            {**API, "format": "prometheus", "valueLocation": "a{b=c}"},
            {},
            "valueLocation",
            "must be a metric",
            id="no selector",
        ),
        pytest.param(
            MetricsAPI,
            {**API, "aggregateFromKubeServiceEndpoints": "true"},
            {},
            "url",
            "must name a Service",
            id="aggregation over an address",
        ),
        pytest.param(Elasticsearch, {**SEARCH}, LOGIN, "query", "exactly one of", id="neither query nor template"),
        pytest.param(Elasticsearch, {**SEARCH, "query": "{"}, LOGIN, "query", "in JSON", id="query is no JSON"),
        pytest.param(Elasticsearch, {**SEARCH, "query": "{}"}, {}, "username", "required with", id="no login"),
        pytest.param(
            Elasticsearch, {**SEARCH, "addresses": "", "query": "{}"}, LOGIN, "addresses", "is required", id="nowhere"
        ),
        pytest.param(InfluxDB, {**INFLUX}, {"authToken": "t"}, "organizationName", "is required by", id="influx 2"),
        pytest.param(
            InfluxDB, {**INFLUX, "influxVersion": "1"}, {"authToken": "t"}, "influxVersion", "input should", id="one"
        ),
        pytest.param(
            InfluxDB,
            {**INFLUX, "influxVersion": "3", "database": "d", "metricKey": "m", "queryType": "SQL"},
            {"authToken": "t"},
            "queryType",
            "input should",
            id="no such language",
        ),
    ],
)
def test_refused(
    scaler: type[Scaler], metadata: dict[str, str], authentication: dict[str, str], field: str, message: str
) -> None:
    base = {**ADDRESS, "threshold": "2"} if scaler is Prometheus else ADDRESS if scaler is Graphite else {}
    with pytest.raises(SettingsError, match=message) as error:
        scaler.parse(Trigger(1, "t", metadata={**base, **metadata}, authentication=authentication))
    assert error.value.field == field
