"""Addresses of pods on the embedded cluster, where all pods share the loopback and no names resolve."""

import ipaddress
import sys
from hashlib import blake2b

from workers.api.kinds import Object

#: A pod's annotation with the address it asks for; only the embedded cluster grants it.
ADDRESS = "penstock.dev/loopback-address"
#: The address of pods that ask for none.
SHARED = "127.0.0.1"

_FIRST = int(ipaddress.IPv4Address("127.1.0.0"))
_LAST = int(ipaddress.IPv4Address("127.255.255.254"))


def address(namespace: str, name: str, *, platform: str = sys.platform) -> str:
    """Returns the address of the pod called `name` (``<hostname>.<subdomain>``).

    The address follows from the name, so that other pods know it before the pod runs. Linux answers on all of
    127.0.0.0/8; other systems have only the shared address. 127.0.0.0/16 is left to the machine's own programs.
    """
    if platform != "linux":
        return SHARED
    seed = int.from_bytes(blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest())
    return str(ipaddress.IPv4Address(_FIRST + seed % (_LAST - _FIRST + 1)))


def of(pod: Object) -> str:
    """Returns the address that a pod asks for if it is on the loopback, else the shared one."""
    wanted = (pod["metadata"].get("annotations") or {}).get(ADDRESS, "")
    try:
        asked = ipaddress.IPv4Address(wanted)
    except ValueError:
        return SHARED
    return str(asked) if asked.is_loopback else SHARED
