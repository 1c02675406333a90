"""The environment a container gets."""

import pytest

from deploy.local.kubelet.containers import environment
from deploy.local.kubelet.containers.environment import ConfigProblem, Sources
from tests.support.tables import cases, for_each
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import CONFIG_MAP, SECRET, Object

SOURCES: Sources = {
    (CONFIG_MAP, "conf"): {"k": b"v", "app.x": b"dotted", "1st": b"one", "b=d": b"left out"},
    (SECRET, "word"): {"s": b"hush", "\xe9": b"left out"},
    (CONFIG_MAP, "gone"): None,
}


@for_each(
    ("plain", "plain"),
    ("$(A)", "a"),
    ("x$(A)$(A)y", "xaay"),
    ("$(NONE)", "$(NONE)"),
    ("$$(A)", "$(A)"),
    ("$$$(A)", "$a"),
    ("$$", "$"),
    ("$A ${A}", "$A ${A}"),
    ("$(A", "$(A"),
    ("$", "$"),
    ("$(A)$(", "a$("),
    ("$()", "$()"),
    ("$(NEST$(A))", "$(NEST$(A))"),
)
def test_expansion(text: str, wanted: str) -> None:
    assert environment.expand(text, {"A": "a"}) == wanted


@cases(
    (
        "values refer to earlier ones",
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}]},
        {"A": "1", "B": "1$(C)"},
    ),
    ("no value is empty", {"env": [{"name": "A"}]}, {"A": ""}),
    (
        "all keys that can be names",
        {"envFrom": [{"configMapRef": {"name": "conf"}}]},
        {"k": "v", "app.x": "dotted", "1st": "one"},
    ),
    ("with a prefix", {"envFrom": [{"secretRef": {"name": "word"}, "prefix": "P_"}]}, {"P_s": "hush"}),
    ("an optional object may be missing", {"envFrom": [{"configMapRef": {"name": "gone", "optional": True}}]}, {}),
    (
        "env outweighs envFrom",
        {"envFrom": [{"configMapRef": {"name": "conf"}}], "env": [{"name": "k", "value": "own"}]},
        {"k": "own", "app.x": "dotted", "1st": "one"},
    ),
    (
        "a key of a ConfigMap",
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "k"}}}]},
        {"A": "v"},
    ),
    (
        "a key of a Secret",
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "word", "key": "s"}}}]},
        {"A": "hush"},
    ),
    (
        "an optional key may be missing",
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "word", "key": "x", "optional": True}}}]},
        {},
    ),
)
def test_variables(declared: Object, wanted: dict[str, str]) -> None:
    assert environment.variables(pod(), box("main", **declared), SOURCES) == wanted


def from_ref(**origin: Object) -> Object:
    return {"env": [{"name": "A", "valueFrom": origin}]}


@cases(
    ("envFrom", {"envFrom": [{"configMapRef": {"name": "gone"}}]}, 'envFrom[0]: ConfigMap "gone" not found'),
    ("object", from_ref(configMapKeyRef={"name": "gone", "key": "k"}), 'env A: ConfigMap "gone" not found'),
    ("key", from_ref(secretKeyRef={"name": "word", "key": "x"}), 'env A: Secret "word" has no key "x"'),
    ("field", from_ref(fieldRef={"fieldPath": "spec.secret"}), "env A: fieldPath spec.secret is not supported"),
    (
        "container",
        from_ref(resourceFieldRef={"resource": "limits.cpu", "containerName": "no"}),
        "env A: resource limits.cpu",
    ),
    ("unknown source", from_ref(fileKeyRef={}), "env A: valueFrom fileKeyRef is not supported"),
    ("NUL", {"env": [{"name": "A", "value": "a\0b"}]}, "env A: the value contains a NUL"),
)
def test_what_cannot_be_made_is_named(declared: Object, message: str) -> None:
    with pytest.raises(ConfigProblem) as raised:
        environment.variables(pod(), box("main", **declared), SOURCES)
    assert str(raised.value).startswith(message)


#: The address that a pod asked for.
ADDRESS = {"annotations": {"penstock.dev/loopback-address": "127.4.5.6"}}


@for_each(
    ("status.podIP", ADDRESS, "127.4.5.6"),
    ("status.podIPs", ADDRESS, "127.4.5.6"),
    ("metadata.name", {}, "p"),
    ("metadata.namespace", {}, "ns"),
    ("metadata.uid", {}, "u"),
    ("metadata.labels['app']", {}, "web"),
    ("metadata.annotations['a/b']", {}, "x"),
    ("metadata.labels['none']", {}, ""),
    ("metadata.labels", {}, 'app="web"\nq="a\\"b"'),
    ("spec.nodeName", {}, "local"),
    ("status.podIP", {}, "127.0.0.1"),
    ("status.hostIP", {}, "127.0.0.1"),
)
def test_fields_of_the_pod(path: str, meta: Object, wanted: str) -> None:
    meta = {"labels": {"q": 'a"b', "app": "web"}, "annotations": {"a/b": "x"}} | meta
    assert environment.field(pod(meta=meta, nodeName="local"), path, "") == wanted


@cases(
    ("rounded up", {"resource": "limits.cpu"}, "1"),
    ("in thousandths", {"resource": "limits.cpu", "divisor": "1m"}, "250"),
    ("in mebibytes", {"resource": "limits.memory", "divisor": "1Mi"}, "64"),
    ("a request defaults to the limit", {"resource": "requests.memory"}, "67108864"),
    ("nothing declared", {"resource": "requests.ephemeral-storage"}, "0"),
)
def test_resources(reference: Object, wanted: str) -> None:
    target = box("main", resources={"limits": {"cpu": "250m", "memory": "64Mi"}})
    assert environment.resource(pod(target), target, reference, "") == wanted


def test_a_resource_without_a_limit_is_what_the_machine_has() -> None:
    assert int(environment.resource(pod(), box("main"), {"resource": "limits.memory"}, "")) > 2**20


def test_a_divisor_that_is_no_quantity_is_refused() -> None:
    reference = {"resource": "limits.cpu", "divisor": "1KiB"}
    with pytest.raises(ConfigProblem, match="here: 1KiB: "):
        environment.resource(pod(), box("main"), reference, "here")


def test_references_name_every_object_a_container_needs() -> None:
    container = box(
        "main",
        envFrom=[{"secretRef": {"name": "all"}}],
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}}, {"name": "B", "value": "b"}],
    )
    assert list(environment.references(container)) == [(SECRET, "all"), (CONFIG_MAP, "one")]
