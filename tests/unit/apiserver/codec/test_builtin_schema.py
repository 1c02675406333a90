"""Reading built-in objects: the misfit is refused in Go's words, the unknown is named, the zero vanishes."""

import copy
from typing import Any

import pytest

from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.schema import schema
from tests.support.tables import cases
from workers.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, JOB, LEASE, POD, SCALED_JOB, SECRET, Kind

EVENTS = Kind("events.k8s.io", "v1", "Event", "events")


def job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j"}, "spec": spec}


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **container}]}}


def in_template(**container: Any) -> dict[str, Any]:
    return job(template=pod(**container))


def misfit(found: str, struct: str, kind: str) -> str:
    """The words of Go's decoder for a value where a field, spelled with its struct, is of another kind."""
    return f"json: cannot unmarshal {found} into Go struct field {struct} of type {kind}"


PARALLELISM = ("JobSpec.spec.parallelism", "int32")
AMOUNT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@cases(
    ("a text for a number", JOB, job(parallelism="x"), misfit("string", *PARALLELISM)),
    ("a fraction for a whole number", JOB, job(parallelism=1.5), misfit("number 1.5", *PARALLELISM)),
    ("a number too large", JOB, job(parallelism=2**31), misfit("number 2147483648", *PARALLELISM)),
    ("a flag for a number", JOB, job(parallelism=True), misfit("bool", *PARALLELISM)),
    (
        "a number for a text, deep inside",
        *(JOB, in_template(env=[{"name": "A", "value": 3}])),
        misfit("number", "EnvVar.spec.template.spec.containers.env.value", "string"),
    ),
    (
        "an object for a list",
        *(JOB, job(template={"spec": {"containers": {}}})),
        misfit("object", "PodSpec.spec.template.spec.containers", "[]v1.Container"),
    ),
    ("a list for an object", JOB, {"spec": []}, misfit("array", "Job.spec", "v1.JobSpec")),
    ("a list for everything", JOB, [], "json: cannot unmarshal array into Go value of type v1.Job"),
    (
        "a number for a label",
        *(JOB, {"metadata": {"labels": {"a": 1}}}),
        misfit("number", "ObjectMeta.metadata.labels", "string"),
    ),
    (
        "no instant",
        *(JOB, {"metadata": {"creationTimestamp": "x"}}),
        'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ),
    ("no quantity", POD, pod(resources={"limits": {"cpu": "x"}}), AMOUNT),
    ("no base64", SECRET, {"data": {"a": "***"}}, "illegal base64 data at input byte 0"),
)
def test_a_body_that_is_no_object_of_its_kind_is_refused(kind: Kind, body: Any, message: str) -> None:
    with pytest.raises(DecodeError) as refused:
        schema.builtin(kind).decode(body, strict="Ignore")
    assert str(refused.value) == f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: {message}'


def test_a_lease_needs_all_six_digits_of_microseconds() -> None:
    reading = schema.builtin(LEASE)
    fine = {"spec": {"renewTime": "2020-01-01T00:00:00.123456Z"}}
    assert reading.decode(fine, strict="Strict") == (fine, [])
    with pytest.raises(DecodeError, match="parsing time"):
        reading.decode({"spec": {"renewTime": "2020-01-01T00:00:00Z"}}, strict="Strict")


UNKNOWN = {"foo": 1, "metadata": {"name": "j", "bar": 2}, "spec": {"template": pod(imagee="x")}}


def test_unknown_fields_are_pruned_and_named() -> None:
    reading = schema.builtin(JOB)
    known = {"metadata": {"name": "j"}, "spec": {"template": pod()}}
    assert reading.decode(UNKNOWN, strict="Ignore") == (known, [])
    body, warnings = reading.decode(UNKNOWN, strict="Warn")
    assert body == known
    paths = ("foo", "metadata.bar", "spec.template.spec.containers[0].imagee")
    assert warnings == [f'unknown field "{path}"' for path in paths]
    with pytest.raises(DecodeError) as refused:
        reading.decode(UNKNOWN, strict="Strict")
    assert str(refused.value).endswith(f"strict decoding error: {', '.join(warnings)}")


@cases(
    ("pointers to zero", JOB, job(parallelism=0, suspend=False), job(parallelism=0, suspend=False)),
    ("null is absence", JOB, job(parallelism=None), job()),
    ("counters, but not pointers", JOB, {"status": {"active": 0, "ready": 0}}, {"status": {"ready": 0}}),
    (
        "empty texts, lists and flags",
        POD,
        pod(image="", args=[], env=[{"name": "A", "value": ""}], tty=False, resources={}),
        pod(env=[{"name": "A"}], resources={}),
    ),
    ("a required text", POD, pod(name=""), pod(name="")),
    ("null in a map", POD, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}),
    ("null in a list", POD, pod(args=[None]), pod(args=[""])),
    ("an empty text in a map", CONFIG_MAP, {"data": {"a": ""}}, {"data": {"a": ""}}),
    ("an empty map", CONFIG_MAP, {"data": {}}, {}),
    ("an empty object", POD, {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, None),
    ("a count of nothing", EVENT, {"count": 0}, {}),
)
def test_zeros_are_not_stored(kind: Kind, body: Any, kept: Any) -> None:
    before = copy.deepcopy(body)
    assert schema.builtin(kind).decode(body, strict="Strict") == (body if kept is None else kept, [])
    assert body == before


@cases(
    (
        "quantities",
        POD,
        pod(resources={"limits": {"cpu": 1, "memory": "1024Mi"}}),
        pod(resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
    ),
    (
        "instants",
        EVENT,
        {"firstTimestamp": "2020-01-01T01:00:00.9+01:00", "eventTime": "2020-01-01T01:00:00.123456+01:00"},
        {"firstTimestamp": "2020-01-01T00:00:00Z", "eventTime": "2020-01-01T00:00:00.123456Z"},
    ),
    ("a named port", POD, pod(livenessProbe={"httpGet": {"port": "web"}}), None),
    ("the other spelling of events", EVENTS, {"note": "x", "regarding": {"kind": "Pod"}}, None),
    (
        "schemas in schemas",
        CUSTOM_RESOURCE_DEFINITION,
        {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"default": {"b": [1]}}}}}}]}},
        None,
    ),
)
def test_values_are_normalised(kind: Kind, body: Any, stored: Any) -> None:
    found, warnings = schema.builtin(kind).decode(body, strict="Strict")
    assert warnings == []
    if kind is CUSTOM_RESOURCE_DEFINITION:
        version = found["spec"]["versions"][0]
        assert version["schema"] == body["spec"]["versions"][0]["schema"]
    else:
        assert found == (body if stored is None else stored)


def test_a_custom_resource_is_no_built_in_kind() -> None:
    with pytest.raises(LookupError, match=r"keda\.sh/v1alpha1 ScaledJob"):
        schema.builtin(SCALED_JOB)
