"""What the Kafka triggers accept and refuse."""

import pytest

from penstock.parameters import Trigger
from scalers.sources.messaging.kafka import ApacheKafka, Kafka, KafkaSource

METADATA = {"bootstrapServers": "a:9092, b:9092", "consumerGroup": "g", "topic": "t"}
LOGIN = {"username": "u", "password": "hush-hush"}


def of(authentication: dict[str, str] | None = None, **metadata: str) -> Trigger:
    return Trigger(1, "kafka", metadata={**METADATA, **metadata}, authentication=authentication or {})


def without_topic(**metadata: str) -> Trigger:
    return Trigger(1, "kafka", metadata={"bootstrapServers": "a:9092", "consumerGroup": "g", **metadata})


@pytest.mark.parametrize(
    ("scaler", "trigger", "metric"),
    [
        pytest.param(ApacheKafka, of(topic="t,u"), "kafka-t,u", id="several topics"),
        pytest.param(Kafka, of(), "kafka-t", id="one topic"),
        pytest.param(ApacheKafka, without_topic(), "kafka-g-topics", id="apache-kafka, all topics"),
        pytest.param(Kafka, without_topic(version="1.0.0"), "kafka-g-topics", id="kafka, all topics"),
    ],
)
def test_names(scaler: type[KafkaSource], trigger: Trigger, metric: str) -> None:
    parsed = scaler.parse(trigger)
    assert (parsed.metric, parsed.target, str(parsed.server)[:12]) == (metric, 10, "kafka://a:90")


@pytest.mark.parametrize(
    ("sasl", "mechanism"),
    [("plaintext", "PLAIN"), ("scram_sha256", "SCRAM-SHA-256"), ("scram_sha512", "SCRAM-SHA-512")],
)
@pytest.mark.parametrize(("tls", "protocol"), [("enable", "SASL_SSL"), ("disable", "SASL_PLAINTEXT")])
def test_how_it_logs_in(sasl: str, mechanism: str, tls: str, protocol: str) -> None:
    server = Kafka.parse(of(LOGIN, sasl=sasl, tls=tls)).server
    options = server.options()
    assert (options["security_protocol"], options["sasl_mechanism"]) == (protocol, mechanism)
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("u", "hush-hush")
    assert (options["ssl_context"] is not None) == (tls == "enable")
    assert "hush" not in f"{server} {server!r}"
