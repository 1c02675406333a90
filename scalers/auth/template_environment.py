"""The environment of a container as its pod template describes it, for parameters given by ``<name>FromEnv``."""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from scalers.auth.secret_text import Hidden
from workers.api.keda import pod_template
from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object, Ref
from workers.errors import NotFound, UserError

#: Returns the entries of a ConfigMap or a Secret (decoded); None if it does not exist.
Lookup = Callable[[Ref], Awaitable[Mapping[str, str] | None]]


def from_cluster(get: Callable[[Ref], Awaitable[Object]]) -> Lookup:
    """Returns a lookup in the API server. get: returns the object or raises `workers.errors.NotFound`."""

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
    """Returns the variables of one container of a pod template.

    container: its name; empty means the first one. As in KEDA, ``envFrom`` comes before ``env``, ``$(VAR)`` refers
    to an earlier entry (``$$`` escapes), and fieldRef and resourceFieldRef are left out, for their values exist only
    in a running pod. Raises UserError for a container, ConfigMap, Secret or key that is missing and not optional, for
    what is malformed, and the errors of `look_up`.
    """
    spec = _container(template, container)
    where = f"container {spec.get('name', '')}"
    for path, problem in pod_template.environment_problems(spec):
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        raise UserError(f"{where}: {place.removeprefix('.')}: {problem}")
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
    """Returns the variables of one container whose ConfigMap or Secret is optional."""
    return frozenset(
        variable["name"]
        for variable in _container(template, container).get("env") or ()
        for reference in (variable.get("valueFrom") or {}).values()
        if isinstance(reference, dict) and reference.get("optional")
    )


def _container(template: Object, name: str) -> Object:
    pod: Any = (template.get("spec") or {}) if isinstance(template, dict) else None
    containers: Any = (pod.get("containers") or []) if isinstance(pod, dict) else None
    if not (isinstance(containers, list) and all(isinstance(each, dict) for each in containers)):
        raise UserError("the pod template must be an object with a spec whose containers are a list of objects")
    if not containers:
        raise UserError("the pod template has no container to take an environment from")
    found: Object | None = next((each for each in containers if not name or each.get("name") == name), None)
    if found is not None:
        return found
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
    """Returns the text with ``$(NAME)`` replaced by a known value and ``$$`` by ``$``, as Kubernetes does it."""

    def replace(match: re.Match[str]) -> str:
        return "$" if match["name"] is None else values.get(match["name"], match[0])

    return re.sub(r"\$(?:\$|\((?P<name>[^)]*)\))", replace, text)
