"""The bounds of what one process holds for pushes: requests in flight, and the bytes of their bodies."""

from dataclasses import dataclass
from typing import Self

from scalers.gateway.problem import refused
from scalers.metrics import IN_FLIGHT_BYTES, IN_FLIGHT_REQUESTS

#: Bytes of bodies in flight. Decoded and encoded again, an event takes some times its bytes.
BYTES = 32 << 20


@dataclass(slots=True)
class Load:
    """The load of this process: requests in flight and the bytes of their bodies.

    most_requests: the bound of those that have been read. most_bytes: of all bodies. complete: requests that have been
    read and are not answered.
    """

    most_requests: int = 1_000
    most_bytes: int = BYTES
    requests: int = 0
    complete: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        IN_FLIGHT_REQUESTS.set_function(lambda: self.requests)
        IN_FLIGHT_BYTES.set_function(lambda: self.bytes)

    def request(self) -> "RequestLoad":
        """Returns the part of one request, which counts within its context."""
        return RequestLoad(self)


@dataclass(slots=True)
class RequestLoad:
    """The part of one request. is_complete: it has been read."""

    load: Load
    bytes: int = 0
    is_complete: bool = False

    def __enter__(self) -> Self:
        self.load.requests += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.load.requests -= 1
        self.load.complete -= self.is_complete
        self.load.bytes -= self.bytes

    def complete(self) -> None:
        """Counts the request as read. Raises RequestRefused (503) beyond the bound.

        One that is still being read takes no place: unknown senders could take all of them by sending slowly. Their
        bytes and connections are bounded.
        """
        if self.load.complete >= self.load.most_requests:
            raise refused(503, "overloaded", "too many requests are in flight", headers={"Retry-After": "1"})
        self.is_complete = True
        self.load.complete += 1

    def add(self, size: int) -> None:
        """Counts bytes that were read. Raises RequestRefused (503) beyond the bound of all requests."""
        if self.load.bytes + size > self.load.most_bytes:
            detail = "the bodies of the requests in flight are too large"
            raise refused(503, "overloaded", detail, headers={"Retry-After": "1"}, closes=True)
        self.bytes += size
        self.load.bytes += size
