"""What kind of cluster pods are made for: who places them, and by what they find each other."""

from dataclasses import dataclass

from workers.api import loopback_addresses

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
        return loopback_addresses.address(namespace, name) if self.addresses else name
