"""What the volumes of pods must be."""

from collections.abc import Iterator, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from workers.api import names
from workers.api.kinds import Object


def judged(volumes: Sequence[Object], path: str) -> tuple[set[str], list[FieldError]]:
    """The names of the volumes that can be mounted, and everything that is wrong with the others."""
    known: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        found = [*_volume(volume, f"{path}[{index}]", known)]
        if not found:
            known.add(name)
        errors += found
    return known, errors


def _volume(volume: Object, place: str, known: set[str]) -> Iterator[FieldError]:
    sources, name = [field for field in volume if field != "name"], volume.get("name", "")
    if len(sources) > 1:
        yield field_errors.forbidden(f"{place}.{sources[1]}", "may not specify more than 1 volume type")
    if not name:
        yield field_errors.required(f"{place}.name")
    else:
        yield from (field_errors.invalid(f"{place}.name", name, problem) for problem in names.dns_label(name))
    if name in known:
        yield field_errors.duplicate(f"{place}.name", name)
    yield from _source(volume, place)


def _source(volume: Object, place: str) -> Iterator[FieldError]:
    for source, field in (
        ("hostPath", "path"),
        ("secret", "secretName"),
        ("configMap", "name"),
        ("persistentVolumeClaim", "claimName"),
    ):
        if source in volume and not volume[source].get(field):
            yield field_errors.required(f"{place}.{source}.{field}")
    for source in ("secret", "configMap"):
        for index, item in enumerate((volume.get(source) or {}).get("items") or ()):
            yield from _item(item, f"{place}.{source}.items[{index}]")


def _item(item: Object, place: str) -> Iterator[FieldError]:
    path = item.get("path", "")
    if not item.get("key"):
        yield field_errors.required(f"{place}.key")
    if not path:
        yield field_errors.required(f"{place}.path")
    elif path.startswith("/"):
        yield field_errors.invalid(f"{place}.path", path, "must be a relative path")
    elif ".." in path.split("/"):
        yield field_errors.invalid(f"{place}.path", path, "must not contain '..'")
    elif path.startswith(".."):
        yield field_errors.invalid(f"{place}.path", path, "must not start with '..'")
