"""The objects to judge, and what they name: from manifests, or from a cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.manifests import Manifest
from scalers.auth.lookups import Get
from workers.api import kinds
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    COMMAND,
    CRON_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD_GROUP,
    QUEUE,
    SCALED_JOB,
    SCALED_OBJECT,
    TRIGGER_AUTHENTICATION,
    VC_CRON_JOB,
    VC_JOB,
    Object,
    Ref,
    controller_of,
)
from workers.api.references import DEFAULT_QUEUE, ROOT_QUEUE
from workers.errors import Forbidden, NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The kinds that are judged, in the order of the report.
JUDGED = (
    *(SCALED_JOB, SCALED_OBJECT, TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION),
    *(CRON_JOB, VC_JOB, VC_CRON_JOB, JOB_FLOW, JOB_TEMPLATE, QUEUE, POD_GROUP, COMMAND),
)
#: Queues that Penstock makes.
_QUEUES = (ROOT_QUEUE, DEFAULT_QUEUE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One object to judge. where: its file, or the empty text for one of a cluster."""

    ref: Ref
    body: Object
    where: str = ""


@dataclass(frozen=True)
class Inventory:
    """Objects to judge. get: reads what they name. passed: numbers of other objects of manifests, by their kind.

    whole: all objects by kind id. complete: what is missing among them does not exist. unread: kinds that could not be
    listed, with the reason.
    """

    candidates: Sequence[Candidate]
    get: Get
    passed: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    complete: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)


def of_manifests(manifests: Sequence[Manifest], namespace: str) -> Inventory:
    """Returns the inventory of manifests. namespace: of objects that name none.

    The queues that Penstock makes are there. Of an object that is there twice the later one counts.
    """
    known: dict[Ref, Candidate] = {}
    passed = Counter[str]()
    for each in manifests:
        kind = kinds.by_manifest(each.api_version, each.kind)
        if kind is None:
            alike = any(judged.kind == each.kind for judged in JUDGED)
            passed[f"{each.kind} ({each.api_version})" if alike else each.kind] += 1
            continue
        where = (each.namespace or namespace) if kind.namespaced else ""
        metadata = {**each.body["metadata"], **({"namespace": where} if where else {})}
        ref = Ref(kind, where, each.name)
        known[ref] = Candidate(ref, {**each.body, "metadata": metadata}, each.where)

    async def get(ref: Ref) -> Object:
        if (found := known.get(ref)) is None:
            raise UserError(f"{ref} is not among the manifests")
        return _with_data(found.body)

    judged = [each for each in known.values() if each.ref.kind in JUDGED]
    judged.sort(key=lambda each: JUDGED.index(each.ref.kind))
    whole = {kind.id: [each.body for each in judged if each.ref.kind == kind] for kind in (SCALED_OBJECT, JOB_TEMPLATE)}
    queues = {each.ref.name: each.body for each in judged if each.ref.kind == QUEUE}
    whole[QUEUE.id] = [*({"metadata": {"name": name}} for name in _QUEUES if name not in queues), *queues.values()]
    passed.update(each.ref.kind.kind for each in known.values() if each.ref.kind not in JUDGED)
    return Inventory(judged, get, passed, whole)


def _with_data(body: Object) -> Object:
    """Returns a Secret with its `stringData` among its data, as an API server stores it."""
    if not (texts := body.get("stringData")):
        return body
    from base64 import b64encode

    data = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
    return {**body, "data": {**(body.get("data") or {}), **data}}


async def of_cluster(cluster: "Cluster", namespace: str = "") -> Inventory:
    """Returns the inventory of a cluster. namespace: judge its objects only; empty for all.

    A kind that the cluster does not serve has no objects. Objects that a controller made, such as the Jobs of a flow,
    are left out. Raises UserError where no kind may be listed: nothing is known of such a cluster.
    """
    whole: dict[str, Sequence[Object]] = {}
    unread: dict[str, str] = {}
    unserved = 0
    for kind in JUDGED:
        try:
            whole[kind.id], _ = await cluster.list(kind, namespace if kind.namespaced else "")
        except NotFound:
            whole[kind.id] = []
            unserved += 1
        except Forbidden as error:
            if error.concerns_all:
                raise
            unread[kind.id] = output.reason(error)
    if unread and len(unread) + unserved == len(JUDGED):
        raise UserError(f"nothing can be judged, for no kind may be listed: {next(iter(unread.values()))}")
    candidates = [
        Candidate(Ref(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]), _as_written(body))
        for kind in JUDGED
        for body in whole.get(kind.id, ())
        if controller_of(body) is None and not (kind == QUEUE and body["metadata"]["name"] in _QUEUES)
    ]
    return Inventory(candidates, cluster.get, whole=whole, complete=True, unread=unread)


#: Metadata that an author writes.
_WRITTEN = ("name", "namespace", "labels", "annotations", "finalizers")


def _as_written(body: Object) -> Object:
    """Returns the object without what servers and controllers filled in."""
    metadata = {name: body["metadata"][name] for name in _WRITTEN if name in body["metadata"]}
    return {**{name: value for name, value in body.items() if name != "status"}, "metadata": metadata}
