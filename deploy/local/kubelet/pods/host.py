"""The resources that all pods of a node share."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.image_commands import Images
from deploy.local.kubelet.containers.isolation import Isolation
from deploy.local.kubelet.containers.log_files import Log
from deploy.local.kubelet.pods.api_server_access import ApiServerAccess
from deploy.local.kubelet.pods.lifecycle import ContainerBackoff
from deploy.local.kubelet.pods.pod_events import Announcer
from deploy.local.kubelet.pods.status_reports import Reports
from deploy.local.kubelet.volumes.config_data import Configs
from deploy.local.kubelet.volumes.volume_claims import VolumeClaims
from workers.api.kinds import Object

log = logging.getLogger(__name__)

#: Seconds between two copies of the output of running containers.
PUMP = 0.1


@dataclass(frozen=True, slots=True)
class Host:
    """root: folder for pods; logs: folder for log files; clock: seconds since the epoch."""

    node: str
    root: Path
    logs: Path
    backoff: ContainerBackoff
    reports: Reports
    configs: Configs
    access: ApiServerAccess
    claims: VolumeClaims
    announcer: Announcer
    images: Images
    isolation: Isolation
    clock: Callable[[], float] = time.time
    _followed: set[Log] = field(default_factory=set)
    _following: asyncio.Event = field(default_factory=asyncio.Event)

    def folder(self, uid: str) -> Path:
        """Returns the folder of a running pod."""
        return self.root / uid

    def log_folder(self, pod: Object) -> Path:
        """Returns the folder of the pod's logs, which stays until the pod is deleted."""
        metadata = pod["metadata"]
        return self.logs / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"

    @contextmanager
    def following(self, output: Log) -> Iterator[None]:
        """Lets `copy_output` follow the output of a container that runs."""
        self._followed.add(output)
        self._following.set()
        try:
            yield
        finally:
            self._followed.discard(output)
            if not self._followed:
                self._following.clear()

    async def copy_output(self) -> None:
        """Follows the output of all running containers until cancelled; sleeps while none runs."""
        while True:
            await self._following.wait()
            await asyncio.sleep(PUMP)
            for one in tuple(self._followed):
                try:
                    one.pump()
                except OSError:
                    # a full disk must not end the copying for the other containers
                    log.exception("output could not be copied")
