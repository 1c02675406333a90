"""The environment and command of a container, from what its pod declares. Pure.

Rules are Kubernetes': `envFrom` first, then `env` in order; ``$(NAME)`` stands for a variable that is defined by then
and for itself otherwise; ``$$`` is a dollar sign.
"""

import os
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from workers.api import loopback_addresses, names, quantities
from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object
from workers.errors import UserError

#: Data of the ConfigMaps and Secrets a pod refers to, by kind and name; None for one that does not exist.
Sources = Mapping[tuple[Kind, str], Mapping[str, bytes] | None]

_ONE = 10**9
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigProblem(UserError):  # noqa: N818 - says what it is
    """A container cannot be configured as its pod asks; the message names the field."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces ``$(NAME)`` by the variable; an undefined one stays as it is written."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def undefined(text: str, variables: Mapping[str, str]) -> list[str]:
    """Returns the names in a text's ``$(NAME)`` that no variable has."""
    found = (match[1] for match in _REFERENCE.finditer(text) if match[0] != "$$")
    return [name for name in found if name not in variables]


def references(container: Object) -> Iterator[tuple[Kind, str]]:
    """The ConfigMaps and Secrets its variables come from."""
    for source in container.get("envFrom") or ():
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if reference := source.get(field):
                yield kind, reference.get("name", "")
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            if reference := origin.get(field):
                yield kind, reference.get("name", "")


def variables(
    pod: Object, container: Object, sources: Sources, given: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Every variable the pod declares for this container, after those given.

    Raises ConfigProblem when one cannot be made.
    """
    found = dict(given)
    for index, source in enumerate(container.get("envFrom") or ()):
        found |= _from_source(source, sources, f"envFrom[{index}]")
    for variable in container.get("env") or ():
        name = variable["name"]
        if origin := variable.get("valueFrom"):
            value = _from_origin(pod, container, origin, sources, f"env {name}")
            if value is None:
                continue
        else:
            value = expand(variable.get("value") or "", found)
        if "\0" in value:
            raise ConfigProblem(f"env {name}: the value contains a NUL character")
        found[name] = value
    return found


def _from_source(source: Object, sources: Sources, where: str) -> dict[str, str]:
    kind, reference = (CONFIG_MAP, source.get("configMapRef")) if source.get("configMapRef") else (SECRET, None)
    reference = reference or source.get("secretRef") or {}
    data = lookup(kind, reference, sources, where)
    prefix = source.get("prefix") or ""
    # a key that cannot be a variable's name is left out, as by the kubelet
    return {
        prefix + key: value.decode(errors="surrogateescape")
        for key, value in (data or {}).items()
        if not names.env_name(prefix + key) and b"\0" not in value
    }


def lookup(kind: Kind, reference: Object, sources: Sources, where: str) -> Mapping[str, bytes] | None:
    """Data of a referenced object, None when it is missing and may be. Raises ConfigProblem when it may not."""
    name = reference.get("name") or reference.get("secretName") or ""
    data = sources.get((kind, name))
    if data is None and not reference.get("optional"):
        raise ConfigProblem(f'{where}: {kind.kind} "{name}" not found')
    return data


def _from_origin(pod: Object, container: Object, origin: Object, sources: Sources, where: str) -> str | None:
    """The value, or None when what it comes from is optional and missing."""
    for field_name, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
        if reference := origin.get(field_name):
            data = lookup(kind, reference, sources, where)
            if data is not None and reference["key"] in data:
                return data[reference["key"]].decode(errors="surrogateescape")
            if reference.get("optional"):
                return None
            raise ConfigProblem(f'{where}: {kind.kind} "{reference.get("name")}" has no key "{reference["key"]}"')
    if reference := origin.get("fieldRef"):
        return field(pod, reference["fieldPath"], where)
    if reference := origin.get("resourceFieldRef"):
        return resource(pod, container, reference, where)
    raise ConfigProblem(f"{where}: valueFrom {', '.join(origin)} is not supported")


def field(pod: Object, path: str, where: str) -> str:
    """A field of the pod, as the downward API offers it. Raises ConfigProblem for one it does not offer."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": loopback_addresses.SHARED,
        "status.hostIPs": loopback_addresses.SHARED,
        "status.podIP": loopback_addresses.of(pod),
        "status.podIPs": loopback_addresses.of(pod),
    }
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(pairs.items()))
    if path not in values:
        raise ConfigProblem(f"{where}: fieldPath {path} is not supported")
    return str(values[path])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource(pod: Object, container: Object, reference: Object, where: str) -> str:
    """A container's limit or request in units of the divisor, rounded up; without one, what the machine has."""
    named = reference.get("containerName") or container["name"]
    everyone = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    target = next((one for one in everyone if one["name"] == named), None)
    section, _, name = reference["resource"].partition(".")
    if target is None or section not in ("limits", "requests"):
        raise ConfigProblem(f"{where}: resource {reference['resource']} of container {named} is not there")
    declared = target.get("resources") or {}
    amount = (declared.get(section) or {}).get(name)
    if amount is None and section == "requests":
        amount = (declared.get("limits") or {}).get(name) or "0"
    value = _capacity(name) if amount is None else _quantity(str(amount), where)
    divisor = _quantity(str(reference.get("divisor") or "1"), where) or _ONE
    return str(-(-value // divisor))


def _quantity(text: str, where: str) -> int:
    """In billionths."""
    try:
        return quantities.parse(text)
    except ValueError as error:
        raise ConfigProblem(f"{where}: {text}: {error}") from error


def _capacity(name: str) -> int:
    """Returns the capacity of the machine, in billionths."""
    has = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
    return has.get(name, 0) * _ONE
