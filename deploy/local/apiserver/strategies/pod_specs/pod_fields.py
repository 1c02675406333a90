"""The rules of what a pod shows to its containers of itself, in variables and in files."""

import re
from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from workers.api import names
from workers.api.kinds import Object

#: Fields that variables show, and those that files show.
OF_VARIABLES = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"}
    | {"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)
OF_FILES = frozenset({"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"})
_KNOWN = OF_VARIABLES | OF_FILES | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Resources of a container that may be shown, and the divisors of each: as they are, and as they are listed.
_AMOUNTS = tuple(sorted(f"{part}.{name}" for part in ("limits", "requests") for name in _RESOURCES))
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNITS = {"cpu": (("1m", "1"), "1m and 1"), "memory": (_BYTES, ", ".join(_BYTES))}


def field(path: str, body: Object, shown: frozenset[str]) -> Iterator[FieldError]:
    """Yields the errors of a `fieldRef`. shown: the fields that may be named, beside single labels and annotations."""
    text, version = body.get("fieldPath", ""), body.get("apiVersion", "v1")
    keyed = _KEYED.fullmatch(text)
    if not text:
        yield field_errors.required(f"{path}.fieldPath")
    elif version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        yield field_errors.invalid(f"{path}.fieldPath", text, detail)
    elif keyed:
        key = keyed[2].lower() if keyed[1] == "annotations" else keyed[2]
        yield from field_errors.malformed(path, key, names.qualified_name)
    elif text not in _KNOWN:
        detail = f"error converting fieldPath: field label not supported: {text}"
        yield field_errors.invalid(f"{path}.fieldPath", text, detail)
    elif text not in shown:
        yield field_errors.not_supported(f"{path}.fieldPath", text, sorted(shown))


def amount(path: str, body: Object, *, whose: bool = False) -> Iterator[FieldError]:
    """Yields the errors of a `resourceFieldRef`: a request or limit, in units that make sense for it.

    whose: the container must be named.
    """
    resource, divisor = body.get("resource", ""), str(body.get("divisor", "0"))
    if whose and not body.get("containerName"):
        yield field_errors.required(f"{path}.containerName")
        return
    if not resource:
        yield field_errors.required(f"{path}.resource")
        return
    if resource not in _AMOUNTS and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield field_errors.not_supported(f"{path}.resource", resource, _AMOUNTS)
        return
    kind = "cpu" if resource.endswith(".cpu") else "memory"
    units, listed = _UNITS[kind]
    if divisor not in ("0", *units):
        name = kind if kind == "cpu" else resource.partition(".")[2]
        detail = f"only divisor's values {listed} are supported with the {name} resource"
        yield field_errors.invalid(f"{path}.divisor", resource, detail)
