"""The `kubernetes-workload` and `kubernetes-resource` triggers of several namespaces, read together."""

from typing import Any

import pytest

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import SourceError
from scalers.sources.kubernetes.resource import KubernetesResource
from scalers.sources.kubernetes.workload import KubernetesWorkload
from tests.support.tables import cases, for_each
from workers.api.kinds import Kind, Object, Ref
from workers.errors import ClusterError, Conflict, Forbidden, Gone, Unavailable

KINDS = (KubernetesResource, KubernetesWorkload)


class Namespaces:
    """An API server with one number in each namespace: of the entry `n` of a ConfigMap, and of pods.

    answers: by namespace, the entry, or the error of every request.
    """

    def __init__(self, **answers: str | ClusterError) -> None:
        self._answers = answers

    async def get(self, ref: Ref) -> Object:
        return {"data": {"n": self._text(ref.namespace)}}

    async def list(self, kind: Kind, namespace: str, **_: str) -> tuple[list[Object], str]:
        return [{"spec": {}}] * int(self._text(namespace)), "1"

    def _text(self, namespace: str) -> str:
        answer = self._answers[namespace]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def trigger(kind: Any, namespace: str, **more: str) -> Any:
    metadata = {
        KubernetesResource: {"resourceKind": "ConfigMap", "resourceName": "c", "key": "n", "targetValue": "1", **more},
        KubernetesWorkload: {"podSelector": "a=b", "value": "1"},
    }[kind]
    return kind.parse(Trigger(0, "kubernetes", metadata=metadata, namespace=namespace))


async def read(cluster: Namespaces, *scalers: Any) -> list[Any]:
    connections = Connections(cluster=cluster)  # type: ignore[arg-type]
    return list(await type(scalers[0]).read(scalers, connections))


@for_each(
    *(
        (kind, error)
        for kind in KINDS
        for error in (
            Forbidden("not allowed"),
            Conflict("changed"),
            Gone("too old"),
            ClusterError("a teapot"),
            Unavailable("the Secret cannot be decrypted"),
        )
    )
)
async def test_a_refusal_is_of_its_namespace_alone(kind: Any, error: ClusterError) -> None:
    good, bad = await read(Namespaces(good="7", bad=error), trigger(kind, "good"), trigger(kind, "bad"))
    assert good == 7
    assert isinstance(bad, SourceError)
    assert str(error) in str(bad)


@for_each(*KINDS)
async def test_a_server_that_answers_nobody_is_a_failure_of_all(kind: Any) -> None:
    down = Unavailable("no connection")
    with pytest.raises(SourceError, match="no connection"):
        await read(Namespaces(one=down, other=down), trigger(kind, "one"), trigger(kind, "other"))


YAML, JSON = {"format": "yaml", "valueLocation": "a"}, {"format": "json", "valueLocation": "a"}
DIGITS = "1" + "0" * 400


@cases(
    ("digits", DIGITS, {}, "is inf"),
    ("an integer of many digits", DIGITS, {"valueType": "int64"}, "too large"),
    ("an integer of very many digits", DIGITS * 20, {"valueType": "int64"}, "no number of type int64"),
    ("a quantity", "9e999999k", {"valueType": "quantity"}, "a text that is no number"),
    ("a quantity in JSON", '{"a":"9e999999k"}', JSON, "a text that is no number"),
    ("a date in YAML", "a: 2001-13-45", YAML, "no number"),
    ("digits in YAML", f"a: {DIGITS}", YAML, "too large"),
    ("very many digits in YAML", f"a: {DIGITS * 20}", YAML, "no number"),
    ("a tag that does not fit", "a: !!int ''", YAML, "no number"),
    ("nesting in YAML", "[" * 5_000, YAML, "levels deep"),
)
async def test_an_odd_value_is_of_its_object_alone(text: str, more: dict[str, str], message: str) -> None:
    good, bad = await read(
        Namespaces(good="7", bad=text),
        trigger(KubernetesResource, "good"),
        trigger(KubernetesResource, "bad", **more),
    )
    assert good == 7
    assert isinstance(bad, SourceError)
    assert message in str(bad)
    assert "configmap bad/c: n: " in str(bad).lower()


async def test_a_secret_that_is_no_base64_is_unknown_by_itself() -> None:
    secret = trigger(KubernetesResource, "bad", resourceKind="Secret")
    good, bad = await read(Namespaces(good="7", bad="x"), trigger(KubernetesResource, "good"), secret)
    assert good == 7
    assert isinstance(bad, SourceError)
    assert str(bad).endswith("n: it cannot be read")
