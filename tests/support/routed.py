"""An API server some of whose objects live elsewhere: custom resources, and kinds it is too old for.

A kube-apiserver 1.20 that was built with Go 1.18 or newer dies on the first write of a custom resource: a library in
it walks over maps in a way that those Go versions no longer allow. It stores Jobs, Pods, Leases and Events as ever. So
what such a server cannot keep is kept in memory, and all the rest on the server.
"""

from collections.abc import Collection
from typing import Any

from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import Kind, Object, Ref
from workers.client.rest import MERGE_PATCH, Cluster


class RoutedCluster:
    """The calls of workers.client.rest.Cluster that carry out a plan: custom resources to memory, the rest to a server.

    unknown: further kinds that go to memory.
    """

    def __init__(self, server: Cluster, unknown: Collection[Kind] = ()) -> None:
        self.memory = MemoryCluster()
        self._server = server
        self._unknown = frozenset(unknown)

    async def get(self, ref: Ref) -> Object:
        return await self._of(ref.kind).get(ref)

    async def create(self, kind: Kind, body: Object) -> Object:
        return await self._of(kind).create(kind, body)

    async def patch(self, ref: Ref, body: Any, *, type: str = MERGE_PATCH, subresource: str = "") -> Object:
        return await self._of(ref.kind).patch(ref, body, type=type, subresource=subresource)

    async def delete(self, ref: Ref, **options: Any) -> Object:
        return await self._of(ref.kind).delete(ref, **options)

    def _of(self, kind: Kind) -> Any:
        # Groups without a dot and those of k8s.io are Kubernetes' own.
        custom = "." in kind.group and not kind.group.endswith(".k8s.io")
        return self.memory if custom or kind in self._unknown else self._server
