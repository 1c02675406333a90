"""The store of an installation compared with what the API server had at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from workers.api.kinds import JOB, POD, SCALED_JOB, Kind, Object, Ref, ref_of
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.errors import NotFound

KINDS = (SCALED_JOB, JOB, POD)


@dataclass(frozen=True)
class Listed:
    """The objects of one kind. objects: the version of each. version: that of the list."""

    objects: Mapping[Ref, int]
    version: int


async def present(cluster: Cluster) -> Mapping[Kind, Listed]:
    """Returns what the API server has now."""
    found = {}
    for kind in KINDS:
        bodies, version = await cluster.list(kind, "default")
        found[kind] = Listed({ref_of(kind, body): _version(body) for body in bodies}, int(version))
    return found


async def differences(store: Store, cluster: Cluster, past: Mapping[Kind, Listed]) -> list[str]:
    """Returns the objects that the store lacks, has in an older version, or has although they were deleted before."""
    found: list[Ref] = []
    for kind, listed in past.items():
        stored = {entry.ref: _version(entry.body) async for entry in store.scan(kind) if entry.body}
        older = [ref for ref, version in listed.objects.items() if stored.get(ref, 0) < version]
        found += [ref for ref in older if await _exists(cluster, ref)]
        found += [ref for ref, version in stored.items() if ref not in listed.objects and version <= listed.version]
    return sorted(map(str, found))


def _version(body: Object) -> int:
    return int(body["metadata"]["resourceVersion"])


async def _exists(cluster: Cluster, ref: Ref) -> bool:
    try:
        await cluster.get(ref)
    except NotFound:
        return False
    return True
