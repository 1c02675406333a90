"""Loopback ports for the servers of a test run: none is given out twice, however many runs share the machine.

Looking for a free port and binding it later is a race, which ends in a server that does not start. So a port is
reserved first: the process that holds the UDP port of the same number has it until it ends. The range lies below the
ports that systems give to outgoing connections.
"""

import atexit
import contextlib
import random
import socket
from collections.abc import Iterator

#: Where to look.
RANGE = range(20000, 32000)

_held: list[socket.socket] = []
# Not the generator that tests seed: two runs would look for the same ports in the same order.
_chance = random.SystemRandom()


def free_port() -> int:
    """Returns a free port that no other test is given. Raises OSError when there is none left."""
    for port in _candidates():
        with contextlib.suppress(OSError):
            _reserve(port)
            return port
    raise OSError(f"no free port among {RANGE.start}-{RANGE.stop - 1}")


def free_ports(count: int) -> list[int]:
    """So many of them, all different."""
    return [free_port() for _ in range(count)]


def consecutive(count: int) -> tuple[int, ...]:
    """So many ports, one after the other. Raises OSError when there are none."""
    for first in _candidates():
        wanted = range(first, first + count)
        before = len(_held)
        try:
            for port in wanted:
                _reserve(port)
        except OSError:
            while len(_held) > before:
                _held.pop().close()
        else:
            return tuple(wanted)
    raise OSError(f"no {count} free ports side by side")


def _candidates() -> Iterator[int]:
    begin = _chance.randrange(len(RANGE))
    yield from RANGE[begin:]
    yield from RANGE[:begin]


def _reserve(port: int) -> None:
    reservation = socket.socket(type=socket.SOCK_DGRAM)
    try:
        reservation.bind(("127.0.0.1", port))
        with socket.socket() as probe:
            # What a stopped server leaves in TIME_WAIT is no obstacle to the next one.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        reservation.close()
        raise
    _held.append(reservation)


@atexit.register
def _let_go() -> None:
    for reservation in _held:
        reservation.close()
