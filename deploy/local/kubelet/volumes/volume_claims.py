"""PersistentVolumeClaims: each is a folder of this machine, for as long as the claim exists."""

import asyncio
import logging
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from deploy.local.kubelet.containers.environment import ConfigProblem
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, Object, Ref
from workers.client.rest import Cluster
from workers.errors import ClusterError, NotFound

log = logging.getLogger(__name__)

#: Seconds between two removals of folders whose claim is gone.
TIDY = 60.0


class VolumeClaims:
    """The folders of claims, made when a pod first needs them. folder: where they are, each named after a uid."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    async def places(self, namespace: str, volumes: Iterable[Object]) -> dict[str, Path]:
        """The folder of each volume that is a claim, by the volume's name.

        Raises ConfigProblem for a claim that does not exist, ClusterError when that cannot be known.
        """
        return {
            volume["name"]: await self._place(Ref(PERSISTENT_VOLUME_CLAIM, namespace, source.get("claimName", "")))
            for volume in volumes
            if (source := volume.get("persistentVolumeClaim")) is not None
        }

    async def deleted(self, pod: Object) -> str:
        """Returns the name of a claim of the pod that is being deleted, empty for none. Raises ClusterError."""
        for volume in pod["spec"].get("volumes") or ():
            if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                with suppress(NotFound):
                    claim = await self._cluster.get(Ref(PERSISTENT_VOLUME_CLAIM, pod["metadata"]["namespace"], name))
                    if claim["metadata"].get("deletionTimestamp"):
                        return str(name)
        return ""

    async def _place(self, ref: Ref) -> Path:
        try:
            claim = await self._cluster.get(ref)
        except NotFound:
            raise ConfigProblem(f'persistentvolumeclaim "{ref.name}" not found') from None
        folder = self._folder / str(claim["metadata"]["uid"])
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (claim.get("status") or {}).get("phase") != "Bound":
            await self._cluster.patch(ref, {"status": _bound(claim)}, subresource="status")
        return folder

    async def keep_tidy(self) -> None:
        """Removes the folders of claims that are gone, until cancelled."""
        while True:
            try:
                await self.tidy()
            except ClusterError as error:
                log.warning("the claims cannot be listed", extra={"error": str(error)})
            await asyncio.sleep(TIDY)

    async def tidy(self) -> None:
        """Removes the folders of claims that are gone. Raises ClusterError when that cannot be known."""
        # Before the list: the claim of each of these folders exists by now, and is in the list unless it was deleted.
        folders = list(self._folder.iterdir()) if self._folder.exists() else []
        if not folders:
            return
        claims, _ = await self._cluster.list(PERSISTENT_VOLUME_CLAIM)
        living = {claim["metadata"]["uid"] for claim in claims}
        for folder in folders:
            if folder.name not in living:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _bound(claim: Object) -> Object:
    """A claim's status once it has a volume: what it asked for, as nothing here measures it."""
    spec = claim["spec"]
    capacity = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": {"storage": capacity}}
