"""What the triggers that ask over HTTP accept and refuse, by trigger and parameter."""

import pytest

from penstock.parameters import Trigger
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
