"""Hearing of pushes from external scalers: one stream per object, all of one server on one channel."""

from collections.abc import AsyncIterator, Callable, Iterable

from scalers.sources.external.client import Address, ExternalClient
from scalers.sources.external.messages import Reference
from scalers.wakeups.streams import StreamListener


class PushListener(StreamListener[ExternalClient]):
    """Follows references to objects, as an external scaler knows them."""

    def __init__(
        self,
        address: Address,
        woke: Callable[[Iterable[Reference]], None],
        *,
        backoff: tuple[float, float] = (2.0, 60.0),
    ) -> None:
        super().__init__(address, woke, backoff=backoff)
        self._address = address

    def connect(self) -> ExternalClient:
        """A channel."""
        return ExternalClient(self._address)

    async def disconnect(self, client: ExternalClient) -> None:
        """Close it."""
        await client.close()

    def news(self, client: ExternalClient, name: Reference) -> AsyncIterator[bool]:
        """What the server pushes."""
        return client.pushes(name.message())
