"""Protection from replays: the delivery that each signature has come with, in the broker, for all gateway processes.

GitHub signs the body alone, so that an observer of one request could send it again under another id, as another
event. A signature belongs to the id and the type that it first came with; the same request again is a duplicate, which
the channel recognizes by its id.
"""

import hmac

from redis.asyncio import Redis

from scheduler.keys import Keys


class ReplayGuard:
    """Signatures that have been seen. client: of the broker."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = client
        self._tag = Keys(prefix).tag

    async def first_or_same(self, scope: str, signature: str, value: str, seconds: int) -> bool:
        """Returns true if the signature is new, or has come with this value before.

        scope: the target's uid. signature: a digest. value: a digest of what may not change. seconds: how long it is
        remembered. Raises redis.exceptions.RedisError while the broker is away.
        """
        key = f"{self._tag}:signature:{scope}:{signature}"
        async with self._client.pipeline(transaction=False) as pipeline:
            # SET with NX and GET at once needs a Redis of 7.0.
            pipeline.set(key, value, nx=True, ex=seconds)
            pipeline.get(key)
            new, known = await pipeline.execute()
        # Nothing is known if the key has expired in between: it was there before.
        return bool(new) or known is None or hmac.compare_digest(known, value.encode())
