"""What may come upon one process of several, and which of them it comes upon."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.links import Way
from tests.support.members import Installation, Member
from tests.support.workload import Workload
from workers.api.kinds import JOB, LEASE, Ref
from workers.cache.informers import lease_name

OUT, IN = frozenset({Way.OUT}), frozenset({Way.IN})


@dataclass(frozen=True)
class Disaster:
    """Something that comes upon one process, and how it ends."""

    name: str
    begin: Callable[[Member], None]
    end: Callable[[Member], None] | None = None


KILLED = Disaster("killed", Member.kill)
FROZEN = Disaster("frozen", Member.freeze, Member.resume)
MUTE = Disaster("heard by the broker no more", lambda member: member.broker.drop(OUT), Member.heal)
DEAF = Disaster("hears nothing of the broker", lambda member: member.broker.drop(IN), Member.heal)
NO_BROKER = Disaster("cut off from the broker", lambda member: member.broker.drop(), Member.heal)
REFUSED = Disaster("refused by the broker", lambda member: member.broker.cut(), Member.heal)
API_DEAF = Disaster("hears nothing of the API server", lambda member: member.api.drop(IN), Member.heal)
NO_API = Disaster("cut off from the API server", lambda member: member.api.drop(), Member.heal)
LATE = Disaster("late by half a second", lambda member: member.broker.delay(0.5), Member.heal)

DISASTERS = (KILLED, FROZEN, MUTE, DEAF, NO_BROKER, REFUSED, API_DEAF, NO_API, LATE)


async def victim(made: Installation, work: Workload, part: str) -> Member:
    """Returns the process to strike: of the watches the one that leads, of the others the first."""
    if part != "watch":
        return made.of(part)[0]
    lease = await work.cluster.get(Ref(LEASE, "default", lease_name("penstock", JOB)))
    leader = lease["spec"]["holderIdentity"]
    return next(member for member in made.of(part) if f"_{member.process.pid}_" in leader)
