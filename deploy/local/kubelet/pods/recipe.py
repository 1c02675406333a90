"""The recipe of a container: command, environment and working directory, with its volumes made."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from deploy.local.image_commands import Images
from deploy.local.kubelet.containers import console, environment, termination_messages
from deploy.local.kubelet.containers.environment import Sources
from deploy.local.kubelet.pods.api_server_access import ApiServerAccess
from deploy.local.kubelet.volumes import folders, mounts
from deploy.local.kubelet.volumes.config_data import Configs
from deploy.local.kubelet.volumes.mounts import Mounts
from deploy.local.kubelet.volumes.volume_claims import VolumeClaims
from workers.api.kinds import Object
from workers.errors import UserError


class NoCommand(UserError):  # noqa: N818 - says what it is
    """Neither the container nor a known image names a command that this machine has."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """cwd: the working directory, relative to the attempt's own or absolute. mounts: what the container finds where.

    reads: `console.INPUT` or `console.TERMINAL`, empty for neither. takes_input: whether clients may send some;
    once: whether it ends with the first of them.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    mounts: Mounts
    reads: str = ""
    takes_input: bool = False
    once: bool = False


class KnownPrograms:
    """The programs on PATH. Each is looked up once a second, because a pod that waits asks with its every event."""

    #: Seconds an answer counts, and the most answers that are kept.
    AGE, MOST = 1.0, 1000

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: By name: the answer, and until when it counts.
        self._answers: dict[str, tuple[bool, float]] = {}

    def has(self, name: str) -> bool:
        """Returns whether there is a program of this name, or was within the last second."""
        now = self._clock()
        found, until = self._answers.get(name, (False, now))
        if until <= now:
            if len(self._answers) >= self.MOST:
                self._answers.clear()
            found = _is_program(name)
            self._answers[name] = (found, now + self.AGE)
        return found


def problems(pod: Object, images: Images, programs: KnownPrograms) -> dict[str, str]:
    """Returns why containers of the pod have nothing to run, by their names; empty for a pod that may start."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    found = {one["name"]: images.problem(one, None if _has_path(one) else programs.has) for one in containers}
    return {name: problem for name, problem in found.items() if problem}


def _has_path(container: Object) -> bool:
    """True if the container may have a PATH of its own: only its start can tell which programs it finds."""
    return bool(container.get("envFrom")) or any(one["name"] == "PATH" for one in container.get("env") or ())


def _is_program(name: str) -> bool:
    # A path that is relative begins at the container's working directory, which only its start knows.
    relative = "/" in name and not name.startswith("/")
    return relative or shutil.which(name, path=_path()) is not None


def _path() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


async def make(
    configs: Configs,
    access: ApiServerAccess,
    claims: VolumeClaims,
    images: Images,
    pod: Object,
    container: Object,
    folder: Path,
    work: Path,
    *,
    isolated: bool,
) -> Recipe:
    """Fetches what the container refers to, fills its volumes and says how to run it.

    folder: the pod's; work: the attempt's working directory, which exists. isolated: whether the container is. Raises
    NoCommand, ConfigProblem naming the field, or ClusterError when something could not be fetched.
    """
    if problem := images.problem(container, None if _has_path(container) else _is_program):
        raise NoCommand(problem)
    pod, container = await access.with_files(pod, container)
    mounted = {mount["name"] for mount in container.get("volumeMounts") or ()}
    needed = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] in mounted]
    wanted = [*environment.references(container), *folders.references(needed)]
    namespace = pod["metadata"]["namespace"]
    sources = await access.sources(pod, needed, await configs.fetch(namespace, wanted))
    # Client libraries that find these variables expect the files at their path.
    given = await access.variables(pod) if isolated else {}
    places = _make_volumes(pod, needed, sources, await claims.places(namespace, needed), folder)
    return compose(pod, container, images, sources, places, folder, work, isolated=isolated, given=given)


def compose(
    pod: Object,
    container: Object,
    images: Images,
    sources: Sources,
    places: Mapping[str, Path],
    folder: Path,
    work: Path,
    *,
    isolated: bool,
    given: Mapping[str, str] = MappingProxyType({}),
) -> Recipe:
    """The recipe, and the links of the container's mounts.

    places: the folder of each volume. given: variables of the cluster, which the container's own may use and replace.
    """
    shown = {name: mounts.volume_folder(name, folder) if isolated else place for name, place in places.items()}
    where = {**given, **{mounts.variable(name): str(place) for name, place in shown.items()}}
    declared = environment.variables(pod, container, sources, where)
    if isolated:
        mounted = mounts.decide_isolated(pod, container, places, declared, work, folder)
    else:
        mounted = mounts.decide(container, places, declared, work, folder)
    mounts.make(mounted)
    message = None
    if isolated:
        message = termination_messages.bind(container, work.parent, has_default=termination_messages.has_default())
    if message is not None:
        message.source.touch()
        mounted = replace(mounted, binds=(*mounted.binds, message))
    declared = {**mounted.variables, **declared}
    # What an image names is not expanded: in Kubernetes only a pod's own words are.
    expanded = {
        part: [environment.expand(text, declared) for text in container.get(part) or ()] for part in ("command", "args")
    }
    stdin, tty = bool(container.get("stdin")), bool(container.get("tty"))
    return Recipe(
        command=images.words({**container, **expanded}),
        env=({"TERM": "xterm"} if tty else {}) | base(pod, work) | declared,
        cwd=container.get("workingDir") or "",
        mounts=mounted,
        reads=console.TERMINAL if tty else console.INPUT if stdin else "",
        takes_input=stdin,
        once=stdin and bool(container.get("stdinOnce")),
    )


def base(pod: Object, work: Path) -> dict[str, str]:
    """The variables every container has."""
    return {
        "PATH": _path(),
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
    }


def _make_volumes(
    pod: Object, needed: list[Object], sources: Sources, claimed: Mapping[str, Path], folder: Path
) -> dict[str, Path]:
    places = dict(claimed)
    for volume in needed:
        if volume["name"] in claimed:
            continue
        if (given := folders.host_path(volume)) is not None:
            places[volume["name"]] = Path(given)
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                Path(given).mkdir(parents=True, exist_ok=True)
            continue
        place = places[volume["name"]] = mounts.volume_folder(volume["name"], folder)
        folders.fill(place, folders.files(pod, volume, sources))
    return places
