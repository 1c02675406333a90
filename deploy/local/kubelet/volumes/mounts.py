"""The mounts of a container: which files and folders it finds where, and in which variables.

An isolated container has each at its path. For another one a path inside the pod's folder becomes a link; elsewhere
nothing is written on its behalf.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from deploy.local.kubelet.containers import environment
from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.containers.isolation import Bind
from deploy.local.kubelet.volumes import account_files, folders
from workers.api.kinds import Object

#: Volumes whose content is the cluster's: containers cannot change it.
GIVEN = ("configMap", "secret", "downwardAPI", "projected")


@dataclass(frozen=True, slots=True)
class Mounts:
    """variables: with the folder of each mount. parts: folders in volumes (`subPath`) that must exist.

    binds: for an isolated container. links: paths and what they lead to, for another one. unmade: paths that such a
    container does not have, each with the variable that has the folder.
    """

    variables: Mapping[str, str]
    parts: tuple[Path, ...] = ()
    binds: tuple[Bind, ...] = ()
    links: Mapping[Path, Path] = field(default_factory=dict)
    unmade: tuple[str, ...] = ()


def variable(name: str) -> str:
    """Returns the name of the variable with the folder of a volume."""
    return "PENSTOCK_VOLUME_" + name.upper().replace("-", "_").replace(".", "_")


def mount_variable(path: str) -> str:
    """Returns the name of the variable with the folder of a mount: PENSTOCK_MOUNT_DATA for ``/data``."""
    return "PENSTOCK_MOUNT_" + re.sub("[^A-Z0-9]", "_", path.strip("/").upper())


def volume_folder(name: str, folder: Path) -> Path:
    """Returns the folder of a volume in the pod's (folder), where an isolated container finds every volume."""
    return folder / ".volumes" / name


def decide(
    container: Object, places: Mapping[str, Path], variables: Mapping[str, str], work: Path, folder: Path
) -> Mounts:
    """The mounts of a container that is not isolated. Pure.

    places: the folder of each volume. variables: the container's. work: its working directory. folder: the pod's.
    Raises ConfigProblem when a path leads out of where it belongs, or a volume is missing.
    """
    found: dict[str, str] = {}
    links: dict[Path, Path] = {}
    unmade: list[str] = []
    sources = _sources(container, places, variables)
    for path, source, mount in sources:
        name = mount_variable(path)
        found.setdefault(name, str(source))
        target = work / path
        if target.is_relative_to(folder) and target != work:
            links[target] = source
        elif target not in (work, source) and mount is not account_files.SILENT_MOUNT:
            unmade.append(f"{path} (in ${name})")
    return Mounts(found, _parts(sources), links=links, unmade=tuple(unmade))


def decide_isolated(
    pod: Object, container: Object, places: Mapping[str, Path], variables: Mapping[str, str], work: Path, folder: Path
) -> Mounts:
    """The mounts of an isolated container, which finds every volume in the pod's folder too. Otherwise as `decide`."""
    given = {volume["name"] for volume in pod["spec"].get("volumes") or () if not volume.keys().isdisjoint(GIVEN)}
    sources = _sources(container, places, variables)
    writable = {mount["name"] for _, _, mount in sources if not mount.get("readOnly")}
    binds = [
        Bind(place, shown, read_only=name not in writable)
        for name, place in places.items()
        if (shown := volume_folder(name, folder)) != place
    ]
    for path, source, mount in sources:
        if (target := work / path) == Path("/"):
            raise ConfigProblem(f"volumeMounts {mount['name']}: nothing can be mounted at /")
        binds.append(Bind(source, target, read_only=bool(mount.get("readOnly")) or mount["name"] in given))
    found = {mount_variable(path): str(work / path) for path, _, _ in reversed(sources)}
    return Mounts(found, _parts(sources), binds=tuple(binds))


def make(mounts: Mounts) -> None:
    """Makes the folders of `subPath` and the links."""
    for part in mounts.parts:
        if not part.exists():
            part.mkdir(parents=True)
    for path, source in mounts.links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(source)


#: The path of a mount, what is mounted, and the mount.
_Source = tuple[str, Path, Object]


def _sources(container: Object, places: Mapping[str, Path], variables: Mapping[str, str]) -> list[_Source]:
    found: list[_Source] = []
    for mount in container.get("volumeMounts") or ():
        where, path = f"volumeMounts {mount['name']}", mount["mountPath"]
        if mount["name"] not in places:
            raise ConfigProblem(f"{where}: the pod has no such volume")
        if ".." in PurePosixPath(path).parts:
            raise ConfigProblem(f"{where}: mountPath {path} leads out of the working directory")
        expression = mount.get("subPathExpr") or ""
        if missing := environment.undefined(expression, variables):
            raise ConfigProblem(f"{where}: subPathExpr {expression}: no variable is named {missing[0]}")
        part = environment.expand(expression, variables) or mount.get("subPath") or ""
        place = places[mount["name"]]
        found.append((path, place / folders.inside(part, where) if part else place, mount))
    return found


def _parts(sources: list[_Source]) -> tuple[Path, ...]:
    return tuple(source for _, source, mount in sources if mount.get("subPath") or mount.get("subPathExpr"))
