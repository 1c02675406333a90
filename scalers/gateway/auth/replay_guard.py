"""Protection from replays: the delivery that each signature has come with, in the broker, for all gateway processes.

GitHub signs the body alone, so that an observer of one request could send it again under another id, as another
event. A signature belongs to the delivery that it first came with: a request that repeats it is that delivery again,
which the channel recognizes by its id.
"""

from dataclasses import replace

from redis.asyncio import Redis

from scalers.gateway.auth.pusher import SignedDelivery
from scheduler.keys import Keys


class ReplayGuard:
    """Signatures that have been seen. client: of the broker."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = client
        self._tag = Keys(prefix).tag

    async def first_delivery(
        self, scope: str, signature: str, delivery: SignedDelivery, seconds: int
    ) -> SignedDelivery:
        """Returns the delivery with the id and the type that its signature first came with: its own if it is new.

        scope: the target's uid. signature: a digest. seconds: how long it is remembered. Raises
        redis.exceptions.RedisError while the broker is away.
        """
        key = f"{self._tag}:signature:{scope}:{signature}"
        async with self._client.pipeline(transaction=False) as pipeline:
            # SET with NX and GET at once needs a Redis of 7.0.
            pipeline.set(key, f"{delivery.id}\n{delivery.type or ''}", nx=True, ex=seconds)
            pipeline.get(key)
            new, known = await pipeline.execute()
        # Nothing is known if the key has expired in between, or if a release before this one wrote it, as a digest.
        if new or known is None or b"\n" not in known:
            return delivery
        id_, _, type_ = known.decode().partition("\n")
        return replace(delivery, id=id_, type=type_ or None)
