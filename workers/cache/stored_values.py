"""Values of the objects hashes, decoded; those that cannot be read are set aside."""

import logging
from collections.abc import Sequence

from redis.asyncio import Redis

from workers.api.kinds import Kind
from workers.cache import codec
from workers.cache.decode_cache import DecodeCache
from workers.cache.store_keys import StoreKeys
from workers.decision.snapshot import CachedObject

log = logging.getLogger(__name__)

#: Seconds that values which could not be read are kept.
UNREADABLE = 7 * 24 * 3600


class StoredValues:
    """The values of one store as a process reads them. kept: bytes of values whose decoded objects stay in memory."""

    def __init__(self, client: Redis, keys: StoreKeys, kept: int) -> None:
        self.decoded = DecodeCache(kept)
        self._client = client
        self._keys = keys
        #: By kind and field, values that could not be read, with the reason, until they are set aside.
        self._unreadable: dict[tuple[Kind, bytes], tuple[bytes, str]] = {}

    def entry(self, kind: Kind, name: bytes, value: bytes | None, *, keep: bool = True) -> CachedObject | None:
        """Decodes a value; None for no value, and for one that cannot be read, which is noted. keep: in the cache."""
        try:
            return self.decoded.entry(kind, name, value) if keep else codec.entry(codec.ref(kind, name), value)
        except ValueError as error:
            self._unreadable[kind, name] = (value or b"", str(error))
            return None

    def entries(
        self, kind: Kind, names: Sequence[bytes], values: Sequence[bytes], *, heads: bool
    ) -> tuple[CachedObject, ...]:
        """Returns the entries. heads: some values are heads. Raises NotKept for one whose value is not kept."""
        known = self.decoded.known(kind, names, values, heads=heads)
        # Each is true; to look for None would compare each with it.
        if not all(known):
            known = [
                kept or self.entry(kind, name, value) for kept, name, value in zip(known, names, values, strict=True)
            ]
        return tuple(entry for entry in known if entry is not None)

    async def set_unreadable_aside(self) -> set[str]:
        """Moves the values that could not be read, so that their kinds are listed again. Returns the kinds' ids."""
        unreadable, self._unreadable = self._unreadable, {}
        for (kind, name), (value, error) in unreadable.items():
            field = name.decode(errors="replace")
            log.error(
                "a stored object cannot be read and was set aside",
                extra={"kind": kind.id, "object": field, "as": self._keys.unreadable, "error": error},
            )
            pipeline = self._client.pipeline()
            pipeline.hset(self._keys.unreadable, f"{kind.id}/{field}", value)
            pipeline.expire(self._keys.unreadable, UNREADABLE)
            pipeline.hdel(self._keys.objects(kind.id), name)
            # Its reflector finds no progress of its own, and lists the kind again.
            pipeline.hdel(self._keys.freshness, kind.id)
            await pipeline.execute()
        return {kind.id for kind, _ in unreadable}
