"""Memory that was freed goes back to the operating system.

glibc keeps freed blocks for later, so that a server that once held or sent much would stay as large as it ever was.
"""

import ctypes
from collections.abc import Callable

from scheduler import shared_ticks

#: Seconds between two times that freed memory is given back. One takes less than a millisecond when there is little.
INTERVAL = 5.0
#: The same of a process that is seldom large, and otherwise at rest.
SELDOM = 30.0
#: Blocks from this size on, in bytes, are mapped one by one and go back at once: large answers.
MAPPED = 1024 * 1024
_M_MMAP_THRESHOLD = -3


def allocator() -> Callable[[], None]:
    """Prepares the C library's allocator; returns what gives freed memory back, nothing where it is not glibc's."""
    library = ctypes.CDLL(None)
    try:
        trim, option = library.malloc_trim, library.mallopt
    except AttributeError:
        return lambda: None
    # A fixed value: by itself the threshold grows with the largest block that was freed.
    option(_M_MMAP_THRESHOLD, MAPPED)

    def give_back() -> None:
        trim(0)

    return give_back


async def keep_giving_back(every: float = INTERVAL) -> None:
    """Gives freed memory back every so many seconds, until cancelled."""
    give_back = allocator()
    while True:
        await shared_ticks.tick(every)
        give_back()
