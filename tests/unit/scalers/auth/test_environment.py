"""The environment of a container, as KEDA resolves it from the pod template."""

from collections.abc import Mapping
from typing import Any

import pytest

from scalers.auth import template_environment
from tests.support.tables import cases, for_each
from workers.api.kinds import CONFIG_MAP, SECRET, Object, Ref
from workers.errors import NotFound, UserError

STORED = {
    Ref(CONFIG_MAP, "team", "settings"): {"QUEUE": "work", "LEVEL": "info"},
    Ref(SECRET, "team", "login"): {"password": "s3cret"},
}


async def look_up(ref: Ref) -> Mapping[str, str] | None:
    return STORED.get(ref)


async def resolve(*env: Object, env_from: tuple[Object, ...] = (), container: str = "") -> dict[str, str]:
    first = {"name": "main", "env": list(env), "envFrom": list(env_from)}
    template = {"spec": {"containers": [first, {"name": "side", "env": [{"name": "WHO", "value": "side"}]}]}}
    return await template_environment.resolve(template, container, "team", look_up)


def ref(kind: str, name: str, key: str, **more: Any) -> Object:
    return {"name": "V", "valueFrom": {kind: {"name": name, "key": key, **more}}}


@cases(
    ("plain value", [{"name": "A", "value": "1"}], {"A": "1"}),
    ("no value is an empty one", [{"name": "A"}], {"A": ""}),
    (
        "references to earlier entries only",
        [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)$$(A)"}, {"name": "C", "value": "3"}],
        {"A": "1", "B": "1$(C)$(A)", "C": "3"},
    ),
    ("key of a ConfigMap", [ref("configMapKeyRef", "settings", "QUEUE")], {"V": "work"}),
    ("key of a Secret", [ref("secretKeyRef", "login", "password")], {"V": "s3cret"}),
    ("optional key", [ref("secretKeyRef", "login", "pin", optional=True)], {}),
    ("optional Secret", [ref("secretKeyRef", "nope", "pin", optional=True)], {}),
    ("fieldRef", [{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], {}),
)
async def test_entries_resolve(env: list[Object], values: dict[str, str]) -> None:
    assert await resolve(*env) == values


@cases(
    ("ConfigMap", {"configMapRef": {"name": "settings"}}, {"QUEUE": "work", "LEVEL": "info"}),
    ("prefix", {"secretRef": {"name": "login"}, "prefix": "DB_"}, {"DB_password": "s3cret"}),
    ("optional", {"secretRef": {"name": "nope", "optional": True}}, {}),
)
async def test_whole_objects_resolve(env_from: Object, values: dict[str, str]) -> None:
    assert await resolve(env_from=(env_from,)) == values


async def test_an_entry_beats_and_may_refer_to_a_whole_object() -> None:
    env = {"name": "LEVEL", "value": "$(QUEUE)!"}
    found = await resolve(env, env_from=({"configMapRef": {"name": "settings"}},))
    assert found == {"QUEUE": "work", "LEVEL": "work!"}


async def test_the_named_container_is_taken() -> None:
    assert await resolve(container="side") == {"WHO": "side"}


@cases(
    ("container", {"container": "x"}, "envSourceContainerName: no container x; there are main, side"),
    ("missing object", {"env_from": ({"secretRef": {"name": "nope"}},)}, "Secret team/nope does not exist"),
)
async def test_what_is_missing_is_named(arguments: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        await resolve(**arguments)


@cases(
    ("variables as a map", {"env": {"A": "1"}}, "container main: env: must be a list"),
    ("a variable without a name", {"env": [{"value": "x"}]}, r"container main: env\[0\].name: is required"),
    ("a number", {"env": [{"name": "A", "value": 1}]}, r"container main: env\[0\].value: must be a text"),
    ("a source that is a text", {"env": [{"name": "A", "valueFrom": "x"}]}, r"env\[0\].valueFrom: must be an object"),
    (
        "a reference without a key",
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login"}}}]},
        r"env\[0\].valueFrom.secretKeyRef.key: is required",
    ),
    ("a whole object by a text", {"envFrom": [{"secretRef": "login"}]}, r"envFrom\[0\].secretRef: must be an object"),
)
async def test_a_malformed_environment_is_named(fields: Object, complaint: str) -> None:
    template = {"spec": {"containers": [{"name": "main", **fields}]}}
    with pytest.raises(UserError, match=complaint):
        await template_environment.resolve(template, "", "team", look_up)


async def test_a_key_of_an_object_without_a_name_is_missing() -> None:
    template = {"spec": {"containers": [{"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]}]}}
    with pytest.raises(UserError, match=r"env A: ConfigMap team/ does not exist"):
        await template_environment.resolve(template, "", "team", look_up)


@for_each({"spec": ["a"]}, {"spec": {"containers": {"name": "main"}}}, {"spec": {"containers": [None]}}, "x")
async def test_a_template_that_is_none_is_named(template: Any) -> None:
    with pytest.raises(UserError, match=r"the pod template.* must be"):
        await template_environment.resolve(template, "", "team", look_up)


async def test_a_missing_key_names_container_variable_and_object() -> None:
    with pytest.raises(UserError, match=r"container main: env V: ConfigMap team/settings has no key PORT"):
        await resolve(ref("configMapKeyRef", "settings", "PORT"))


async def test_a_template_without_containers_has_no_environment() -> None:
    with pytest.raises(UserError, match="no container"):
        await template_environment.resolve({"spec": {}}, "", "team", look_up)


async def test_the_clusters_objects_are_decoded() -> None:
    bodies: dict[Ref, Object] = {
        Ref(SECRET, "team", "login"): {"data": {"password": "czNjcmV0"}},
        Ref(CONFIG_MAP, "team", "empty"): {},
    }

    async def get(ref: Ref) -> Object:
        if ref not in bodies:
            raise NotFound(str(ref), status=404)
        return bodies[ref]

    from_cluster = template_environment.from_cluster(get)
    assert await from_cluster(Ref(SECRET, "team", "login")) == {"password": "s3cret"}
    assert await from_cluster(Ref(CONFIG_MAP, "team", "empty")) == {}
    assert await from_cluster(Ref(SECRET, "team", "nope")) is None
