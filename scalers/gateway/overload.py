"""The bounds of what one process holds for pushes: requests in flight, and the bytes of their bodies."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scalers.gateway.problem import refused
from scalers.metrics import IN_FLIGHT_BYTES, IN_FLIGHT_REQUESTS

#: Bytes of bodies in flight. Decoded and encoded again, an event takes some times its bytes.
BYTES = 32 << 20


@dataclass(slots=True)
class Load:
    """What is in flight in this process. most_requests, most_bytes: the bounds."""

    most_requests: int = 1_000
    most_bytes: int = BYTES
    requests: int = 0
    bytes: int = 0

    @contextmanager
    def request(self) -> Iterator["RequestLoad"]:
        """Counts one request. Raises RequestRefused (503) beyond the bound."""
        if self.requests >= self.most_requests:
            raise refused(
                503, "overloaded", "too many requests are in flight", headers={"Retry-After": "1"}, closes=True
            )
        self.requests += 1
        IN_FLIGHT_REQUESTS.set(self.requests)
        held = RequestLoad(self)
        try:
            yield held
        finally:
            self.requests -= 1
            self.bytes -= held.bytes
            IN_FLIGHT_REQUESTS.set(self.requests)
            IN_FLIGHT_BYTES.set(self.bytes)


@dataclass(slots=True)
class RequestLoad:
    """The part of one request."""

    load: Load
    bytes: int = 0

    def add(self, size: int) -> None:
        """Counts bytes that were read. Raises RequestRefused (503) beyond the bound of all requests."""
        if self.load.bytes + size > self.load.most_bytes:
            detail = "the bodies of the requests in flight are too large"
            raise refused(503, "overloaded", detail, headers={"Retry-After": "1"}, closes=True)
        self.bytes += size
        self.load.bytes += size
        IN_FLIGHT_BYTES.set(self.load.bytes)
