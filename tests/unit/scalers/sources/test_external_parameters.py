"""What the `external` triggers accept, refuse and pass on."""

from penstock.parameters import Trigger
from scalers.sources.external.grpc_client import Address
from scalers.sources.external.messages import Reference, message
from scalers.sources.external.trigger import External, ExternalPush
from tests.support.certificates import certificates
from tests.support.tables import cases

GOOD = Trigger(2, "external", metadata={"scalerAddress": "scaler.team:9090"}, namespace="team", owner="work")
CERTIFICATES = certificates()
SHOWN = {"tlsClientCert": CERTIFICATES.client, "tlsClientKey": CERTIFICATES.client_key}


def of(authentication: dict[str, str] | None = None, **metadata: str) -> Trigger:
    return Trigger(
        2, "external", metadata={**GOOD.metadata, **metadata}, authentication=authentication or {}, owner="work"
    )


def test_only_external_push_is_listened_to() -> None:
    trigger = of(tokenFromEnv="TOKEN", more="1")
    assert External.parse(trigger).watched == ()
    told = {("scalerAddress", "scaler.team:9090"), ("more", "1")}
    assert ExternalPush.parse(trigger).watched == (Reference("work", "", frozenset(told)),)


@cases(
    ("in the clear", of(), False),
    ("with the system's authorities", of(enableTLS="true"), True),
    ("with an authority", of({"caCert": CERTIFICATES.authority}), True),
    ("with a client's certificate", of(SHOWN), True),
)
def test_when_tls_is_spoken(trigger: Trigger, encrypted: bool) -> None:
    server = External.parse(trigger).server
    assert isinstance(server, Address)
    assert (server.tls is not None) is encrypted
    assert str(server) == "scaler.team:9090"


def test_messages_are_on_the_wire_what_keda_speaks() -> None:
    """Bytes worked out by hand from the field numbers and types of KEDA's service."""
    reference = Reference("n", "s", frozenset({("k", "v")})).message()
    assert reference.SerializeToString() == b"\n\x01n\x12\x01s\x1a\x06\n\x01k\x12\x01v"
    spec = message("GetMetricSpecResponse").FromString(b"\n\x0e\n\x01m\x10\x05\x19" + b"\0" * 6 + b"\x04\x40")
    assert [(one.metricName, one.targetSize, one.targetSizeFloat) for one in spec.metricSpecs] == [("m", 5, 2.5)]
    value = message("GetMetricsResponse").FromString(b"\n\x05\n\x01m\x10\x07")
    assert [(one.metricName, one.metricValue) for one in value.metricValues] == [("m", 7)]
    asked = message("GetMetricsRequest")(scaledObjectRef=reference, metricName="m")
    assert asked.SerializeToString() == b"\n\x0e" + reference.SerializeToString() + b"\x12\x01m"
    assert message("IsActiveResponse").FromString(b"\x08\x01").result is True
