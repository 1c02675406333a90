"""The parts of a running server that handlers work with."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.local.apiserver.access.access_control import AccessControl
from deploy.local.apiserver.admission.resource_quotas import QuotaAdmission
from deploy.local.apiserver.api_errors import not_found, timeout, unavailable
from deploy.local.apiserver.discovery.api_resources import RequestTarget, ResourceRegistry
from deploy.local.apiserver.storage.object_store import Displaced, ObjectStore, Overloaded, StoredObject
from deploy.local.apiserver.storage.paging import Snapshots
from deploy.local.apiserver.storage.watch_streams import Hub
from deploy.local.image_commands import Images
from workers.admission.admission_options import AdmissionOptions
from workers.api.kinds import Object

#: Longest wait for the broker to take a write, in seconds.
PATIENCE = 30.0


def utcnow() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Context:
    """The parts of a running server.

    logs: where the kubelet leaves containers' output. access: who may do what. admission: what the rules of Volcano's
    kinds take from settings. images: what images run on this cluster.
    """

    store: ObjectStore
    hub: Hub
    registry: ResourceRegistry
    logs: Path
    access: AccessControl
    now: Callable[[], datetime] = utcnow
    admission: AdmissionOptions = field(default_factory=lambda: AdmissionOptions(gangs=False))
    images: Images = field(default_factory=Images.of)
    snapshots: Snapshots = field(default_factory=Snapshots)
    quotas: QuotaAdmission = field(init=False)

    def __post_init__(self) -> None:
        self.quotas = QuotaAdmission(self.store, self.registry)

    def existing(self, target: RequestTarget) -> StoredObject:
        """Returns the latest version of the addressed object. Raises ApiError (404) when there is none."""
        record = self.store.latest(target.resource.storage, target.key)
        if record is None:
            raise not_found(target.resource.kind, target.name)
        return record

    def put(self, resource: str, key: str, body: Object) -> asyncio.Future[StoredObject]:
        """Store.put, refusing with 503 when the broker is too far behind."""
        try:
            return self.store.put(resource, key, body)
        except Overloaded as error:
            raise unavailable(str(error)) from error

    def remove(self, resource: str, key: str) -> asyncio.Future[StoredObject]:
        """Store.remove, refusing with 503 when the broker is too far behind."""
        try:
            return self.store.remove(resource, key)
        except Overloaded as error:
            raise unavailable(str(error)) from error


async def written(future: asyncio.Future[StoredObject]) -> StoredObject:
    """The record once the broker has it; 504 when that takes too long, 503 when another server owns the store."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await future
    except Displaced as error:
        raise unavailable(str(error)) from error
    except TimeoutError:
        raise timeout("the store did not confirm the write in time; it may still take effect") from None
