"""The data of ConfigMaps and Secrets, fetched for the start of a container and kept for a moment."""

import asyncio
import base64
import time
from collections.abc import Iterable, Mapping

from workers.api.kinds import CONFIG_MAP, Kind, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

Data = Mapping[str, bytes] | None

#: Seconds that data is cached: a thousand pods of one Job fetch it a few times, and a change is soon visible.
FRESH = 1.0


class Configs:
    """Fetches what pods refer to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Ref, tuple[float, asyncio.Task[Data]]] = {}

    async def fetch(self, namespace: str, wanted: Iterable[tuple[Kind, str]]) -> dict[tuple[Kind, str], Data]:
        """The data of each, None for one that does not exist. Raises ClusterError when it cannot be known."""
        names = list(dict.fromkeys(wanted))
        if not names:
            return {}
        found = await asyncio.gather(*(self._get(Ref(kind, namespace, name)) for kind, name in names))
        return dict(zip(names, found, strict=True))

    async def _get(self, ref: Ref) -> Data:
        now = time.monotonic()
        self._known = {known: entry for known, entry in self._known.items() if now - entry[0] < FRESH}
        if ref not in self._known:
            self._known[ref] = (now, asyncio.create_task(self._read(ref)))
        # shielded: one pod that is stopped must not take the answer from the others
        return await asyncio.shield(self._known[ref][1])

    async def _read(self, ref: Ref) -> Data:
        try:
            body = await self._cluster.get(ref)
        except NotFound:
            return None
        encoded = body.get("data") or {}
        if ref.kind == CONFIG_MAP:
            texts = {key: value.encode() for key, value in encoded.items()}
            return texts | {key: base64.b64decode(value) for key, value in (body.get("binaryData") or {}).items()}
        return {key: base64.b64decode(value or "") for key, value in encoded.items()}
