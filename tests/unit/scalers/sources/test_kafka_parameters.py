"""What the Kafka triggers accept and refuse."""

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.messaging.kafka import ApacheKafka, Kafka, KafkaSource

METADATA = {"bootstrapServers": "a:9092, b:9092", "consumerGroup": "g", "topic": "t"}
LOGIN = {"username": "u", "password": "hush-hush"}


def of(authentication: dict[str, str] | None = None, **metadata: str) -> Trigger:
    return Trigger(1, "kafka", metadata={**METADATA, **metadata}, authentication=authentication or {})


def without_topic(**metadata: str) -> Trigger:
    return Trigger(1, "kafka", metadata={"bootstrapServers": "a:9092", "consumerGroup": "g", **metadata})


LIMIT, EVEN = {"limitToPartitionsWithLag": "true"}, {"ensureEvenDistributionOfPartitions": "true"}


@pytest.mark.parametrize("scaler", [ApacheKafka, Kafka])
@pytest.mark.parametrize(
    ("trigger", "field", "complaint"),
    [
        pytest.param(of(bootstrapServers="a:1,,"), "bootstrapServers", "must be addresses", id="no address"),
        pytest.param(of(partitionLimitation="a"), "partitionLimitation", "must be partitions", id="no partitions"),
        pytest.param(without_topic(**LIMIT), "limitToPartitionsWithLag", "needs a topic", id="limit, all topics"),
        pytest.param(
            without_topic(**EVEN), "ensureEvenDistributionOfPartitions", "needs a topic", id="even, all topics"
        ),
        pytest.param(of(**LIMIT, **EVEN), "limitToPartitionsWithLag", "exclude each other", id="limit and even"),
        pytest.param(
            of(**LIMIT, allowIdleConsumers="true"), "limitToPartitionsWithLag", "exclude each other", id="limit, idle"
        ),
        pytest.param(of(sasl="gssapi"), "sasl", "gssapi is not supported yet", id="a login that is missing"),
        pytest.param(of(sasl="magic"), "sasl", "must be one of none, plaintext", id="a login that nobody knows"),
        pytest.param(of({"username": "u"}, sasl="plaintext"), "password", "is required by sasl", id="no password"),
        pytest.param(of({"password": "p"}, sasl="plaintext"), "username", "is required by sasl", id="no user"),
        pytest.param(of({"cert": "no-pem"}), "cert", "must come together", id="no key"),
        pytest.param(of({"ca": "no-pem"}, tls="enable"), "ca", "is not a certificate", id="no authority"),
    ],
)
def test_what_cannot_work_is_refused(scaler: type[KafkaSource], trigger: Trigger, field: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as caught:
        scaler.parse(trigger)
    assert caught.value.field == field


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
