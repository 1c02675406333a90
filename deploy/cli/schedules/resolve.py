"""The lookup and the patch that `run`, `suspend` and `resume` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.cli import discovery
from deploy.cli.objects.apply import MERGE_PATCH
from workers.api.kinds import CRON_JOB, EVENT_JOB, JOB, SCHEDULED_JOB, Kind, Object, Ref
from workers.errors import NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The kinds' names in results, the same as those of `get -o name`.
NAMES = {
    SCHEDULED_JOB.id: "scheduledjob.penstock.dev",
    CRON_JOB.id: "cronjob.batch",
    JOB.id: "job.batch",
    EVENT_JOB.id: "eventjob.penstock.dev",
}


@dataclass(frozen=True, slots=True)
class ResolvedSchedule:
    """An object that the command line names, as the cluster returned it."""

    ref: Ref
    body: Object

    @property
    def title(self) -> str:
        """The object's name in results: ``scheduledjob.penstock.dev/nightly``."""
        return f"{NAMES[self.ref.kind.id]}/{self.ref.name}"


async def find(cluster: "Cluster", what: str, namespace: str, kinds: Sequence[Kind]) -> ResolvedSchedule:
    """Returns the object of ``NAME`` or ``KIND/NAME``. Tries `kinds` in order for a bare name.

    Raises UserError if the kind is not one of `kinds` or no object has the bare name.
    """
    text, slash, name = what.rpartition("/")
    if not name or (slash and not text):
        raise UserError(f"{what}: either NAME or KIND/NAME is needed")
    if slash:
        kind = (await discovery.discover(cluster)).find(text).kind
        if kind.id not in {each.id for each in kinds}:
            raise UserError(f"{what}: {kind.kind} is none of {listed(kinds)}")
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
    """Returns the kinds as text for messages."""
    return between.join(kind.kind for kind in kinds)


async def patch(cluster: "Cluster", ref: Ref, body: Object) -> Object:
    """Merges fields into the object and returns the result."""
    path = ref.kind.path(ref.namespace, ref.name)
    answer: Object = await cluster.request("PATCH", path, body=body, headers=MERGE_PATCH)
    return answer
