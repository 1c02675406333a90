"""What `run`, `suspend` and `resume` share: the object that is meant, and how it is changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.cli import discovery
from deploy.cli.objects.apply import MERGE_PATCH
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, Kind, Object, Ref
from workers.errors import NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: How results name each kind, as `get -o name` does.
NAMES = {SCHEDULED_JOB.id: "scheduledjob.penstock.dev", CRON_JOB.id: "cronjob.batch", JOB.id: "job.batch"}


@dataclass(frozen=True, slots=True)
class ResolvedSchedule:
    """An object that was asked for, as it was read."""

    ref: Ref
    body: Object

    @property
    def title(self) -> str:
        """``scheduledjob.penstock.dev/nightly``"""
        return f"{NAMES[self.ref.kind.id]}/{self.ref.name}"


async def find(cluster: "Cluster", what: str, namespace: str, kinds: Sequence[Kind]) -> ResolvedSchedule:
    """The object that ``NAME`` or ``KIND/NAME`` means. A bare name is looked for in the order of `kinds`.

    Raises UserError for another kind and for a name that none of the kinds has.
    """
    text, slash, name = what.rpartition("/")
    if not name or (slash and not text):
        raise UserError(f"{what}: either NAME or KIND/NAME is needed")
    if slash:
        kind = (await discovery.discover(cluster)).find(text).kind
        if kind.id not in {each.id for each in kinds}:
            raise UserError(f"{what}: a {kind.kind} is none of {listed(kinds)}")
        ref = Ref(kind, namespace, name)
        return ResolvedSchedule(ref, await cluster.request("GET", kind.path(namespace, name)))
    for kind in kinds:
        try:
            body = await cluster.request("GET", kind.path(namespace, name))
        except NotFound:
            continue
        return ResolvedSchedule(Ref(kind, namespace, name), body)
    raise UserError(f"namespace {namespace} has no {listed(kinds, ' and no ')} called {name}")


def listed(kinds: Sequence[Kind], between: str = ", ") -> str:
    """The kinds as a reader names them."""
    return between.join(kind.kind for kind in kinds)


async def patch(cluster: "Cluster", ref: Ref, body: Object) -> Object:
    """Merge some fields into the object; the object then."""
    path = ref.kind.path(ref.namespace, ref.name)
    answer: Object = await cluster.request("PATCH", path, body=body, headers=MERGE_PATCH)
    return answer
