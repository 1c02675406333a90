"""The environment of a container as its pod template describes it, for parameters given by ``<name>FromEnv``."""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from scalers.auth.secret_text import Hidden
from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object, Ref
from workers.errors import NotFound, UserError

#: Looks up the entries of a ConfigMap or a Secret (decoded); None when there is no such object.
Lookup = Callable[[Ref], Awaitable[Mapping[str, str] | None]]


def from_cluster(get: Callable[[Ref], Awaitable[Object]]) -> Lookup:
    """A lookup that asks the API server.

    get: answers the object or raises `workers.errors.NotFound`.
    """

    async def look_up(ref: Ref) -> Mapping[str, str] | None:
        try:
            body = await get(ref)
        except NotFound:
            return None
        data = body.get("data") or {}
        if ref.kind == SECRET:
            return Hidden({key: base64.b64decode(text).decode(errors="replace") for key, text in data.items()})
        return Hidden(data)

    return look_up


async def resolve(template: Object, container: str, namespace: str, look_up: Lookup) -> dict[str, str]:
    """The variables of one container of a pod template.

    container: its name; empty means the first one. As in KEDA, ``envFrom`` comes before ``env``, ``$(VAR)`` refers
    to an earlier entry (``$$`` escapes), and fieldRef and resourceFieldRef are left out because they are only known
    once the pod runs.
    Raises UserError for a container, ConfigMap, Secret or key that is missing and not optional; what `look_up`
    raises passes through.
    """
    spec = _container(template, container)
    where = f"container {spec.get('name', '')}"
    values: dict[str, str] = {}
    for source in spec.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if reference := source.get(field):
                entries = await _entries(kind, reference, namespace, where, look_up)
                values.update({prefix + key: text for key, text in entries.items()})
    for variable in spec.get("env") or ():
        text = await _value(variable, namespace, f"{where}: env {variable['name']}", values, look_up)
        if text is not None:
            values[variable["name"]] = text
    return values


def optional(template: Object, container: str) -> frozenset[str]:
    """The variables of one container that are there only if the ConfigMap or Secret that they refer to is."""
    return frozenset(
        variable["name"]
        for variable in _container(template, container).get("env") or ()
        for reference in (variable.get("valueFrom") or {}).values()
        if isinstance(reference, dict) and reference.get("optional")
    )


def _container(template: Object, name: str) -> Object:
    containers: list[Object] = (template.get("spec") or {}).get("containers") or []
    if not containers:
        raise UserError("the pod template has no container to take an environment from")
    if not name:
        return containers[0]
    for spec in containers:
        if spec.get("name") == name:
            return spec
    known = ", ".join(str(spec.get("name")) for spec in containers)
    raise UserError(f"envSourceContainerName: no container {name}; there are {known}")


async def _value(
    variable: Object, namespace: str, where: str, values: Mapping[str, str], look_up: Lookup
) -> str | None:
    source: Mapping[str, Any] = variable.get("valueFrom") or {}
    for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
        if reference := source.get(field):
            entries = await _entries(kind, reference, namespace, where, look_up)
            if reference["key"] not in entries and not reference.get("optional"):
                raise UserError(f"{where}: {Ref(kind, namespace, reference['name'])} has no key {reference['key']}")
            return entries.get(reference["key"])
    return None if source else expand(variable.get("value") or "", values)


async def _entries(kind: Kind, reference: Object, namespace: str, where: str, look_up: Lookup) -> Mapping[str, str]:
    ref = Ref(kind, namespace, reference.get("name") or "")
    entries = await look_up(ref)
    if entries is None and not reference.get("optional"):
        raise UserError(f"{where}: {ref} does not exist")
    return entries or {}


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by a known value and ``$$`` by ``$``, as Kubernetes does; unknown names stay as they are."""

    def replace(match: re.Match[str]) -> str:
        return "$" if match["name"] is None else values.get(match["name"], match[0])

    return re.sub(r"\$(?:\$|\((?P<name>[^)]*)\))", replace, text)
