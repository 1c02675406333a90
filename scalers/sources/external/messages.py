"""The messages of KEDA's external scalers, service ``externalscaler.ExternalScaler``, described without a compiler."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.extras import needed

#: The extra that brings gRPC and protobuf.
EXTRA = "external"

#: The service's.
PACKAGE = "externalscaler"

#: The fields of each message, by their numbers from 1 on. A name with a capital is a message, with a star repeated.
_MESSAGES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "ScaledObjectRef": (("name", "string"), ("namespace", "string"), ("scalerMetadata", "map")),
    "IsActiveResponse": (("result", "bool"),),
    "MetricSpec": (("metricName", "string"), ("targetSize", "int64"), ("targetSizeFloat", "double")),
    "GetMetricSpecResponse": (("metricSpecs", "MetricSpec*"),),
    "GetMetricsRequest": (("scaledObjectRef", "ScaledObjectRef"), ("metricName", "string")),
    "MetricValue": (("metricName", "string"), ("metricValue", "int64"), ("metricValueFloat", "double")),
    "GetMetricsResponse": (("metricValues", "MetricValue*"),),
}


@dataclass(frozen=True, slots=True)
class Method:
    """One call of the service. path: on the wire. streams: it has a stream of answers, until either side ends it."""

    path: str
    request: str
    response: str
    streams: bool = False

    @property
    def name(self) -> str:
        """Without the service."""
        return self.path.rpartition("/")[2]


IS_ACTIVE = Method(f"/{PACKAGE}.ExternalScaler/IsActive", "ScaledObjectRef", "IsActiveResponse")
STREAM_IS_ACTIVE = Method(f"/{PACKAGE}.ExternalScaler/StreamIsActive", "ScaledObjectRef", "IsActiveResponse", True)
GET_METRIC_SPEC = Method(f"/{PACKAGE}.ExternalScaler/GetMetricSpec", "ScaledObjectRef", "GetMetricSpecResponse")
GET_METRICS = Method(f"/{PACKAGE}.ExternalScaler/GetMetrics", "GetMetricsRequest", "GetMetricsResponse")


@dataclass(frozen=True, slots=True)
class Reference:
    """An object and its trigger's metadata, as the server gets them. metadata may hold secrets and is in no repr."""

    name: str
    namespace: str
    metadata: frozenset[tuple[str, str]]

    def __repr__(self) -> str:
        return f"Reference({self.namespace}/{self.name})"

    def message(self) -> Any:
        """Returns it as a ScaledObjectRef."""
        return message("ScaledObjectRef")(
            name=self.name, namespace=self.namespace, scalerMetadata=dict(sorted(self.metadata))
        )


def message(name: str) -> Any:
    """Returns the class of a message. Raises MissingLibrary."""
    return _classes()[name]


@cache
def _classes() -> Mapping[str, Any]:
    factory = needed("google.protobuf.message_factory", EXTRA)
    pool = needed("google.protobuf.descriptor_pool", EXTRA).DescriptorPool()
    # A separate pool: KEDA's generated code in the same process registers messages of the same names.
    pool.Add(_file())
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES}


def _file() -> Any:
    descriptors = needed("google.protobuf.descriptor_pb2", EXTRA)
    file = descriptors.FileDescriptorProto(name="externalscaler.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            _describe(described, field, number, kind)
    return file


def _describe(described: Any, name: str, number: int, kind: str) -> None:
    """Adds one field to a message's description."""
    field = described.field.add(name=name, number=number, label=1)
    if kind == "map":
        entry = described.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _describe(entry, "key", 1, "string")
        _describe(entry, "value", 2, "string")
        field.label, field.type = field.LABEL_REPEATED, field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{described.name}.{entry.name}"
    elif kind[0].isupper():
        field.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind.removesuffix('*')}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
