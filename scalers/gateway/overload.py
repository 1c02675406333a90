"""The bounds of what one process holds for pushes: requests in flight, and the bytes of their bodies.

A body is read before it is known who sends it. So that strangers cannot take all the bytes by sending slowly, a body
that has been read for some seconds is ended once another one needs its bytes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from scalers.gateway.problem import refused
from scalers.metrics import IN_FLIGHT_BYTES, IN_FLIGHT_REQUESTS

#: Bytes of bodies in flight. Decoded and encoded again, an event takes some times its bytes.
BYTES = 32 << 20
#: Seconds for which a body that is read keeps its bytes though others have no room.
GRACE = 2.0


@dataclass(slots=True)
class Load:
    """The load of this process: requests in flight and the bytes of their bodies.

    most_requests: the bound of those that have been read. most_bytes: of all bodies. complete: requests that have been
    read and are not answered. grace: seconds for which a body keeps its bytes in any case. reading: requests of which a
    part of the body has come, with the time of the first.
    """

    most_requests: int = 1_000
    most_bytes: int = BYTES
    requests: int = 0
    complete: int = 0
    bytes: int = 0
    grace: float = GRACE
    clock: Callable[[], float] = time.monotonic
    reading: "dict[RequestLoad, float]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        IN_FLIGHT_REQUESTS.set_function(lambda: self.requests)
        IN_FLIGHT_BYTES.set_function(lambda: self.bytes)

    def request(self) -> "RequestLoad":
        """Returns the part of one request, which counts within its context."""
        return RequestLoad(self)

    def make_room(self, size: int, request: "RequestLoad") -> bool:
        """Returns whether there is room for more bytes of a request; if need be, slower bodies are ended for them."""
        excess = self.bytes + size - self.most_bytes
        if excess <= 0:
            return True
        since = self.clock() - self.grace
        slow = [one for one, began in self.reading.items() if began <= since]
        if request in slow or sum(one.bytes for one in slow) < excess:
            return False
        for one in sorted(slow, key=lambda one: one.bytes, reverse=True):
            if excess > 0:
                excess -= one.bytes
                one.give_up()
        return True


@dataclass(slots=True, eq=False)
class RequestLoad:
    """The part of one request.

    is_complete: it has been read. gave_up: it was ended for others while it was read. end: ends the reading.
    """

    load: Load
    bytes: int = 0
    is_complete: bool = False
    gave_up: bool = False
    end: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self.load.requests += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.load.requests -= 1
        self.load.reading.pop(self, None)
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
        self.load.reading.pop(self, None)
        self.load.complete += 1

    def is_read(self) -> None:
        """Notes that more of the body is to come: its reading may be ended once others need its bytes."""
        if not self.gave_up:
            self.load.reading.setdefault(self, self.load.clock())

    def add(self, size: int) -> None:
        """Counts bytes that were read. Raises RequestRefused (503) beyond the bound of all requests."""
        if not self.load.make_room(size, self):
            detail = "the bodies of the requests in flight are too large"
            raise refused(503, "overloaded", detail, headers={"Retry-After": "1"}, closes=True)
        self._count(size)

    def give_up(self) -> None:
        """Ends the reading of this request, and gives its bytes back."""
        self.gave_up = True
        del self.load.reading[self]
        self._count(-self.bytes)
        self.end()

    def release(self) -> None:
        """Gives its bytes back: the body is not kept, and its reading is not ended for others."""
        self.load.reading.pop(self, None)
        self._count(-self.bytes)

    def _count(self, size: int) -> None:
        self.bytes += size
        self.load.bytes += size
