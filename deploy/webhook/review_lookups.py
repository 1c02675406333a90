"""Reads of the objects that rules need. A failed read is an error, because unknown is not absent."""

import asyncio
from collections.abc import Mapping, Sequence

from workers.admission.findings import Finding
from workers.admission.lookup import Known
from workers.admission.rules import Needs
from workers.api.kinds import Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import Invalid, NotFound

POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates")
#: Name prefix of the PodTemplates in dry runs, which the API server never stores.
_NAME = "penstock-webhook-"


async def known(cluster: Cluster, needs: Needs) -> Known:
    """Returns the current objects that rules need. Raises ClusterError if one cannot be read."""
    refs = [need for need in needs if isinstance(need, Ref)]
    kinds = [need for need in needs if isinstance(need, Kind)]
    objects, whole = await asyncio.gather(
        asyncio.gather(*(_object(cluster, ref) for ref in refs)),
        asyncio.gather(*(cluster.list(kind) for kind in kinds)),
    )
    found: Mapping[Ref, Object | None] = dict(zip(refs, objects, strict=True))
    return Known(found, {kind.id: items for kind, (items, _) in zip(kinds, whole, strict=True)})


async def _object(cluster: Cluster, ref: Ref) -> Object | None:
    try:
        return await cluster.get(ref)
    except NotFound:
        return None


async def templates(cluster: Cluster, namespace: str, found: Sequence[tuple[str, Object]]) -> list[Finding]:
    """Returns the API server's findings on pod templates, from a dry-run creation of each."""
    answers = await asyncio.gather(*(_template(cluster, namespace, path, body) for path, body in found))
    return [finding for answer in answers for finding in answer]


async def _template(cluster: Cluster, namespace: str, path: str, template: Object) -> list[Finding]:
    metadata = {"generateName": _NAME, "namespace": namespace}
    body = {"apiVersion": "v1", "kind": POD_TEMPLATE.kind, "metadata": metadata, "template": template}
    try:
        await cluster.request("POST", POD_TEMPLATE.path(namespace), query={"dryRun": "All"}, body=body)
    except Invalid as error:
        return _findings(path, error)
    return []


def _findings(path: str, error: Invalid) -> list[Finding]:
    """Returns the server's messages, with field paths of the object under review."""
    causes = ((error.body or {}).get("details") or {}).get("causes") or ()
    found = [Finding(path + each.get("field", "").removeprefix("template"), each.get("message", "")) for each in causes]
    return found or [Finding(path, str((error.body or {}).get("message") or error))]
