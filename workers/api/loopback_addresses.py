"""Addresses of pods on a machine where no names resolve and everybody shares the loopback: the embedded cluster."""

import ipaddress
import sys
from hashlib import blake2b

from workers.api.kinds import Object

#: A pod's annotation: the address it asks for. Only a cluster whose pods live on the loopback gives it.
ADDRESS = "penstock.dev/loopback-address"
#: The address of pods that ask for none.
SHARED = "127.0.0.1"

_FIRST = int(ipaddress.IPv4Address("127.1.0.0"))
_LAST = int(ipaddress.IPv4Address("127.255.255.254"))


def address(namespace: str, name: str, *, platform: str = sys.platform) -> str:
    """The address of the pod that is called `name` (``<hostname>.<subdomain>``).

    Made from the name, so that everybody knows it before the pod runs. Linux answers on all of 127.0.0.0/8; elsewhere
    there is only the one that everybody shares. Addresses that begin with 127.0 are left to the machine's own programs.
    """
    if platform != "linux":
        return SHARED
    seed = int.from_bytes(blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest())
    return str(ipaddress.IPv4Address(_FIRST + seed % (_LAST - _FIRST + 1)))


def of(pod: Object) -> str:
    """The address a pod has: the one it asks for if that is on the loopback, else the shared one."""
    wanted = (pod["metadata"].get("annotations") or {}).get(ADDRESS, "")
    try:
        asked = ipaddress.IPv4Address(wanted)
    except ValueError:
        return SHARED
    return str(asked) if asked.is_loopback else SHARED
