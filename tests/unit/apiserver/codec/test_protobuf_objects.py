"""Objects in Kubernetes' protobuf encoding are read as their JSON would be."""

import pytest

from deploy.local.apiserver.codec import protobuf_objects
from tests.support.tables import cases


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def _object(version: str, kind: str, *fields: bytes) -> bytes:
    return b"k8s\x00" + _field(1, _field(1, version) + _field(2, kind)) + _field(2, b"".join(fields))


def _meta(*fields: bytes) -> bytes:
    return _field(1, b"".join(fields))


CASES = {
    "empty texts are absent": (
        _object("v1", "ConfigMap", _meta(_field(1, "one"), _field(2, ""), _field(7, 0))),
        {"metadata": {"name": "one"}},
    ),
    "maps of texts": (
        _object("v1", "ConfigMap", _field(2, _field(1, "a") + _field(2, "b")), _field(2, _field(1, "c"))),
        {"data": {"a": "b", "c": ""}},
    ),
    "maps of bytes in base64": (
        _object("v1", "Secret", _field(2, _field(1, "a") + _field(2, b"\xff\x00"))),
        {"data": {"a": "/wA="}},
    ),
    "a zero that can be absent is a value": (
        _object("batch/v1", "Job", _field(2, _field(1, 0) + _field(10, 0))),
        {"spec": {"parallelism": 0, "suspend": False}},
    ),
    "a zero that cannot be absent is none": (
        _object("batch/v1", "Job", _field(3, _field(4, 0) + _field(5, 2))),
        {"status": {"succeeded": 2}},
    ),
    "an empty message that can be absent is there": (
        _object("v1", "Pod", _field(2, _field(1, _field(1, "tmp") + _field(2, _field(2, b""))))),
        {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}},
    ),
    "negative numbers": (_object("v1", "Pod", _field(2, _field(25, -10))), {"spec": {"priority": -10}}),
    "times, and none": (
        _object("v1", "Namespace", _meta(_field(8, _field(1, 1_767_225_600)), _field(9, b""))),
        {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}},
    ),
    "times with microseconds": (
        _object("coordination.k8s.io/v1", "Lease", _field(2, _field(3, _field(1, 1_767_225_600) + _field(2, 5_000)))),
        {"spec": {"acquireTime": "2026-01-01T00:00:00.000005Z"}},
    ),
    "lists of numbers, packed or not": (
        _object("v1", "Pod", _field(2, _field(14, _field(4, 5) + _field(4, b"\x06\x07")))),
        {"spec": {"securityContext": {"supplementalGroups": [5, 6, 7]}}},
    ),
    "fields nobody knows are skipped": (
        _object("v1", "ConfigMap", _field(99, "x"), _field(98, 1), _meta(_field(1, "one"))),
        {"metadata": {"name": "one"}},
    ),
    "the scale is of its own group": (
        _object("autoscaling/v1", "Scale", _field(2, _field(1, 3))),
        {"spec": {"replicas": 3}},
    ),
}


@cases(CASES)
def test_a_message_reads_as_its_json(body: bytes, expected: dict[str, object]) -> None:
    decoded = protobuf_objects.decode(body)
    assert {name: value for name, value in decoded.items() if name not in ("apiVersion", "kind")} == expected


def test_the_envelope_names_version_and_kind() -> None:
    decoded = protobuf_objects.decode(_object("batch/v1", "Job"))
    assert (decoded["apiVersion"], decoded["kind"]) == ("batch/v1", "Job")


@cases(
    ("no magic", b"{}", "does not appear to be a protobuf message"),
    ("unknown kind", _object("v1", "Nonsense"), "no kind 'Nonsense' in version 'v1'"),
    ("cut short", _object("v1", "ConfigMap", b"\x0a\x7f"), "unexpected end"),
    ("endless number", _object("v1", "ConfigMap", b"\x0a" + b"\xff" * 11), "a malformed number"),
    ("group", _object("v1", "ConfigMap", b"\x0b"), "illegal wire type 3"),
    ("number for message", _object("v1", "ConfigMap", _field(1, 5)), "a number where a message should be"),
    (
        "text for number",
        _object("batch/v1", "Job", _field(2, _field(1, "text"))),
        "a value of type i in the wrong form",
    ),
)
def test_a_body_that_is_no_object_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        protobuf_objects.decode(body)
