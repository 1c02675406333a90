"""The rules of the users, groups and rights of a pod and of its containers."""

from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, between, each
from workers.api.kinds import Object

_number = between(0, 2**31 - 1)


def of_pod(spec: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of a pod's security context. path: of the context."""
    context = spec.get("securityContext") or {}
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _number(f"{path}.{name}", context.get(name))
    yield from each(_number)(f"{path}.supplementalGroups", context.get("supplementalGroups"))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield field_errors.invalid(f"{path}.shareProcessNamespace", True, detail)
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        place, name = f"{path}.sysctls[{index}].name", sysctl.get("name", "")
        yield from field_errors.present(place, name)
        if name and name in seen:
            yield field_errors.duplicate(place, name)
        seen.add(name)


def of_container(path: str, context: Object | None) -> Iterator[FieldError]:
    """Yields the errors of a container's security context."""
    context = context or {}
    for name in ("runAsUser", "runAsGroup"):
        yield from _number(f"{path}.{name}", context.get(name))
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield field_errors.invalid(path, context, detail)
