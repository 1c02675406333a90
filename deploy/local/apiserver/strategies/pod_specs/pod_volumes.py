"""The rules of a pod's volumes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, each, judge, named
from deploy.local.apiserver.strategies.pod_specs import pod_fields
from workers.api import names, quantities
from workers.api.kinds import Object

_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
#: The fields that each kind of volume must have.
_VOLUME_FIELDS = (
    *(("hostPath", "path"), ("secret", "secretName"), ("configMap", "name")),
    *(("persistentVolumeClaim", "claimName"), ("nfs", "server"), ("nfs", "path"), ("gitRepo", "repository")),
)
#: Kinds of volumes that a container may have as a device.
_DEVICES = ("persistentVolumeClaim", "ephemeral")
#: Seconds of the shortest and of the longest life of a projected token.
_SHORTEST, _LONGEST = 600, 2**32


def volumes(items: Sequence[Object], path: str) -> tuple[dict[str, Object], list[FieldError]]:
    """Returns the volumes that can be mounted, by name, and the errors of the others."""
    mountable: dict[str, Object] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(items):
        found = [*_volume(volume, f"{path}[{index}]", mountable)]
        if not found:
            mountable[volume.get("name", "")] = volume
        errors += found
    return mountable, errors


def mounts(items: Sequence[Object], path: str, mountable: Mapping[str, Object]) -> Iterator[FieldError]:
    """Yields the errors of what a container mounts."""
    seen: set[str] = set()
    for index, mount in enumerate(items):
        place, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        yield from field_errors.present(f"{place}.name", name)
        if name not in mountable:
            yield field_errors.not_found(f"{place}.name", name)
        yield from field_errors.present(f"{place}.mountPath", target)
        if target and target in seen:
            yield field_errors.invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)
        part, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
        if part and expression:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield field_errors.invalid(f"{place}.subPathExpr", expression, detail)
        # These paths are Kubernetes' own: they do not say which mount.
        yield from _below(f"{path}.subPath", part)
        yield from _below(f"{path}.subPathExpr", expression)
        if (propagation := mount.get("mountPropagation")) is not None and propagation not in _PROPAGATIONS:
            yield field_errors.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)


def devices(items: Sequence[Object], path: str, mountable: Mapping[str, Object]) -> Iterator[FieldError]:
    """Yields the errors of what a container has as a device."""
    for index, device in enumerate(items):
        place, name = f"{path}[{index}]", device.get("name", "")
        yield from field_errors.present(f"{place}.name", name)
        if name not in mountable:
            yield field_errors.not_found(f"{place}.name", name)
        elif mountable[name].keys().isdisjoint(_DEVICES):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield field_errors.invalid(f"{place}.name", name, detail)
        yield from field_errors.present(f"{place}.devicePath", device.get("devicePath"))


def _volume(volume: Object, path: str, known: Mapping[str, Object]) -> Iterator[FieldError]:
    sources, name = [field for field in volume if field != "name"], volume.get("name", "")
    if len(sources) > 1:
        yield field_errors.forbidden(f"{path}.{sources[1]}", "may not specify more than 1 volume type")
    yield from named(names.dns_label)(f"{path}.name", name)
    if name in known:
        yield field_errors.duplicate(f"{path}.name", name)
    for source, field in _VOLUME_FIELDS:
        if source in volume:
            yield from field_errors.present(f"{path}.{source}.{field}", volume[source].get(field))
    for source, rule in _SOURCES.items():
        if source in volume:
            yield from rule(f"{path}.{source}", volume[source])


def _empty_dir(path: str, body: Object) -> Iterator[FieldError]:
    if (limit := body.get("sizeLimit")) and quantities.parse(limit) < 0:
        yield field_errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(path: str, body: Object) -> Iterator[FieldError]:
    if ".." in (body.get("path") or "").split("/"):
        yield field_errors.invalid(f"{path}.path", body["path"], "must not contain '..'")
    if (kind := body.get("type") or "") not in _HOST_PATHS:
        yield field_errors.not_supported(f"{path}.type", kind, _HOST_PATHS)


def _nfs(path: str, body: Object) -> Iterator[FieldError]:
    if (shared := body.get("path")) and not shared.startswith("/"):
        yield field_errors.invalid(f"{path}.path", shared, "must be an absolute path")


def _mode(path: str, mode: int | None) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        yield field_errors.invalid(path, mode, detail)


def _keys(path: str, body: Object) -> Iterator[FieldError]:
    """Files from the keys of a Secret or a ConfigMap."""
    yield from _mode(f"{path}.defaultMode", body.get("defaultMode"))
    yield from each(_key)(f"{path}.items", body.get("items"))


def _key(path: str, item: Object) -> Iterator[FieldError]:
    yield from judge(item, path, (("key", field_errors.present), ("path", _file), ("mode", _mode)))


def _file(path: str, target: str | None) -> Iterator[FieldError]:
    """The path of a file in a volume."""
    yield from field_errors.present(path, target)
    yield from _below(path, target or "")
    if target and target.startswith("..") and not target.startswith("../"):
        yield field_errors.invalid(path, target, "must not start with '..'")


def _below(path: str, target: str) -> Iterator[FieldError]:
    """A path that does not lead out of its volume."""
    if target.startswith("/"):
        yield field_errors.invalid(path, target, "must be a relative path")
    if ".." in target.split("/"):
        yield field_errors.invalid(path, target, "must not contain '..'")


def _downward(path: str, body: Object) -> Iterator[FieldError]:
    """Files from the fields of the pod. The paths are Kubernetes' own: they do not say which file."""
    yield from _mode(f"{path}.defaultMode", body.get("defaultMode"))
    for item in body.get("items") or ():
        yield from judge(item, path, (("path", _file), ("mode", _mode)))
        field, amount = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from pod_fields.field(f"{path}.fieldRef", field, pod_fields.OF_FILES)
            if amount is not None:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield field_errors.invalid(path, "resource", detail)
        elif amount is not None:
            yield from pod_fields.amount(f"{path}.resourceFieldRef", amount, whose=True)
        else:
            yield field_errors.required(path, "one of fieldRef and resourceFieldRef is required")


def _projected(path: str, body: Object) -> Iterator[FieldError]:
    yield from _mode(f"{path}.defaultMode", body.get("defaultMode"))
    for index, source in enumerate(body.get("sources") or ()):
        for kind, rule in _PROJECTED.items():
            if kind in source:
                yield from rule(f"{path}.sources[{index}].{kind}", source[kind])


def _projected_keys(path: str, body: Object) -> Iterator[FieldError]:
    yield from field_errors.present(f"{path}.name", body.get("name"))
    yield from _keys(path, body)


def _token(path: str, body: Object) -> Iterator[FieldError]:
    seconds = body.get("expirationSeconds", _SHORTEST)
    if seconds < _SHORTEST:
        detail = "may not specify a duration less than 10 minutes"
        yield field_errors.invalid(f"{path}.expirationSeconds", seconds, detail)
    if seconds > _LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield field_errors.invalid(f"{path}.expirationSeconds", seconds, detail)
    yield from field_errors.present(f"{path}.path", body.get("path"))


_Rule = Callable[[str, Object], Iterable[FieldError]]
_SOURCES: Mapping[str, _Rule] = {
    **{"emptyDir": _empty_dir, "hostPath": _host_path, "nfs": _nfs, "secret": _keys, "configMap": _keys},
    **{"downwardAPI": _downward, "projected": _projected},
}
_PROJECTED: Mapping[str, _Rule] = {
    **{"secret": _projected_keys, "configMap": _projected_keys},
    **{"downwardAPI": _downward, "serviceAccountToken": _token},
}
