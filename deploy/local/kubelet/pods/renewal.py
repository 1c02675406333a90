"""The volumes that the cluster gives, as they are to be while their containers run.

Tokens are left out: theirs last longer than any pod runs.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.pods.api_server_access import ApiServerAccess
from deploy.local.kubelet.volumes import folders, mounts
from deploy.local.kubelet.volumes.config_data import Configs
from deploy.local.kubelet.volumes.folders import Files
from workers.api.kinds import Object


def renewable(pod: Object, containers: Iterable[Object]) -> Iterator[Object]:
    """The volumes of the pod that the cluster gives to one of these containers, without tokens."""
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] not in mounted or volume.keys().isdisjoint(mounts.GIVEN):
            continue
        if (projected := volume.get("projected")) is None:
            yield volume
            continue
        sources = [source for source in projected.get("sources") or () if "serviceAccountToken" not in source]
        yield {**volume, "projected": {**projected, "sources": sources}}


async def current(
    configs: Configs, access: ApiServerAccess, pod: Object, containers: Iterable[Object], folder: Path
) -> list[tuple[Path, Files]]:
    """Returns the folders of these volumes with the files that they have by now; folder: the pod's.

    A volume that cannot be made any more, such as one of a deleted ConfigMap, is left out and stays as it is. Raises
    ClusterError when that cannot be known.
    """
    volumes = list(renewable(pod, containers))
    if not volumes:
        return []
    fetched = await configs.fetch(pod["metadata"]["namespace"], folders.references(volumes))
    sources = await access.sources(pod, volumes, fetched)
    found: list[tuple[Path, Files]] = []
    for volume in volumes:
        try:
            found.append((mounts.volume_folder(volume["name"], folder), folders.files(pod, volume, sources)))
        except ConfigProblem:
            continue
    return found
