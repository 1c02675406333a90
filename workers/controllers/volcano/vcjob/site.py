"""What kind of cluster pods are made for: who places them, and by what they find each other."""

import ipaddress
import sys
from dataclasses import dataclass
from hashlib import blake2b

#: The scheduler of a Job that names none, as Volcano's webhook fills it in.
VOLCANO = "volcano"


@dataclass(frozen=True, slots=True)
class Site:
    """gathered: schedulers whose pods are admitted as gangs, by us. scheduler: who places the admitted pods.

    addresses: pods find each other by loopback addresses, as no names resolve (the embedded cluster).
    """

    gathered: frozenset[str] = frozenset({VOLCANO})
    scheduler: str = "default-scheduler"
    addresses: bool = False

    def placing(self, wanted: str) -> str:
        """The scheduler that is to place a pod whose author wants this one."""
        return self.scheduler if wanted in self.gathered else wanted

    def host(self, namespace: str, name: str) -> str:
        """How other pods reach the pod that is called `name` (``<hostname>.<subdomain>``) in this namespace."""
        return loopback(namespace, name) if self.addresses else name


def loopback(namespace: str, name: str, *, platform: str = sys.platform) -> str:
    """The address of a pod on a machine whose pods have no network but the loopback.

    Made from the name, so that everybody knows it before the pod runs. Linux answers on all of 127.0.0.0/8; elsewhere
    only 127.0.0.1 can be had. The first /16 is left out: programs of the machine itself listen there.
    """
    if platform != "linux":
        return "127.0.0.1"
    seed = int.from_bytes(blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest())
    first = int(ipaddress.IPv4Address("127.1.0.0"))
    last = int(ipaddress.IPv4Address("127.255.255.254"))
    return str(ipaddress.IPv4Address(first + seed % (last - first + 1)))
