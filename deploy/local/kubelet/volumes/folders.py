"""The volumes of a pod as folders. What goes into a folder is decided purely; `fill` writes it."""

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from deploy.local.kubelet.containers import environment
from deploy.local.kubelet.containers.environment import ConfigProblem, Sources
from deploy.local.kubelet.volumes.account_files import TOKEN_REQUEST
from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object

#: Files of a volume: path inside it -> content and mode.
Files = dict[str, tuple[bytes, int]]

_DEFAULT_MODE = 0o644
#: The name of a file until it has its own: no key and no path of a volume begins like this.
_NEW = "..new"


def references(volumes: Iterable[Object]) -> Iterator[tuple[Kind, str]]:
    """The ConfigMaps and Secrets these volumes are made from."""
    for volume in volumes:
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if "configMap" in source:
                yield CONFIG_MAP, source["configMap"].get("name", "")
            if "secret" in source:
                yield SECRET, source["secret"].get("secretName") or source["secret"].get("name", "")


def host_path(volume: Object) -> str | None:
    """The folder or file of this machine a volume stands for, if it does."""
    path = (volume.get("hostPath") or {}).get("path")
    return None if path is None else str(path)


def files(pod: Object, volume: Object, sources: Sources) -> Files:
    """Returns the files of the volume's folder at the start of its containers.

    Raises ConfigProblem for a missing object or a kind of volume that is not supported.
    """
    where = f"volume {volume['name']}"
    if "emptyDir" in volume:
        return {}
    if "projected" in volume:
        found: Files = {}
        mode = volume["projected"].get("defaultMode") or _DEFAULT_MODE
        for source in volume["projected"].get("sources") or ():
            found |= _files(pod, source, sources, where, mode)
        return found
    return _files(pod, volume, sources, where, _DEFAULT_MODE)


def _files(pod: Object, volume: Object, sources: Sources, where: str, mode: int) -> Files:
    for name, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
        if name in volume:
            source = volume[name]
            data = environment.lookup(kind, source, sources, where)
            return _keys(data or {}, source, kind, where, source.get("defaultMode") or mode)
    if "serviceAccountToken" in volume:
        asked = volume["serviceAccountToken"]
        token = sources.get((TOKEN_REQUEST, asked.get("audience") or "")) or {}
        return {inside(asked["path"], where): (token.get("token", b""), mode)}
    if "downwardAPI" in volume:
        source = volume["downwardAPI"]
        return {
            inside(item["path"], where): (
                _item(pod, item, where),
                item.get("mode") or source.get("defaultMode") or mode,
            )
            for item in source.get("items") or ()
        }
    kinds = ", ".join(sorted(set(volume) - {"name"}))
    raise ConfigProblem(f"{where}: {kinds or 'a volume without a source'} is not supported on this node")


def _keys(data: Mapping[str, bytes], source: Object, kind: Kind, where: str, mode: int) -> Files:
    if not source.get("items"):
        return {inside(key, where): (value, mode) for key, value in data.items()}
    found: Files = {}
    for item in source["items"]:
        if item["key"] in data:
            found[inside(item["path"], where)] = (data[item["key"]], item.get("mode") or mode)
        elif not source.get("optional"):
            raise ConfigProblem(f'{where}: {kind.kind} has no key "{item["key"]}"')
    return found


def _item(pod: Object, item: Object, where: str) -> bytes:
    if reference := item.get("fieldRef"):
        return environment.field(pod, reference["fieldPath"], where).encode()
    reference = item.get("resourceFieldRef") or {}
    target = {"name": reference.get("containerName", "")}
    return environment.resource(pod, target, reference, where).encode()


def inside(path: str, where: str) -> str:
    """Returns the path again. Raises ConfigProblem if it leads out of a volume."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or not parts:
        raise ConfigProblem(f"{where}: path {path!r} leads out of the volume")
    return path


def fill(folder: Path, content: Files) -> None:
    """Makes the folder with these files; what is there already is kept (emptyDir) or overwritten.

    Containers that run see each file as it was or as it is now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, (data, mode) in content.items():
        path = folder / name
        if _is(path, data, mode):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(_NEW)
        new.unlink(missing_ok=True)
        new.write_bytes(data)
        new.chmod(mode)
        new.replace(path)


def _is(path: Path, data: bytes, mode: int) -> bool:
    """True for a file with this content and mode."""
    try:
        return stat.S_IMODE(path.stat().st_mode) == mode and path.read_bytes() == data
    except OSError:
        return False
