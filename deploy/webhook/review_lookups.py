"""Reads of the objects that rules need. A failed read is an error, because unknown is not absent."""

import asyncio
import re
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
#: What an API server says of unknown fields, and each of them. The fields are those of its own version.
_STRICT = "strict decoding error: "
_UNKNOWN = re.compile(r'unknown field "template\.?((?:[^"\\]|\\.)*)"')


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


async def templates(
    cluster: Cluster, namespace: str, found: Sequence[tuple[str, Object]]
) -> tuple[list[Finding], list[str]]:
    """Returns the API server's findings on pod templates, and the paths of fields that it does not know.

    Each template is created in a dry run. A server before Kubernetes 1.25 does not say which fields it does not know.
    """
    answers = await asyncio.gather(*(_template(cluster, namespace, path, body) for path, body in found))
    return [finding for wrong, _ in answers for finding in wrong], [path for _, paths in answers for path in paths]


async def _template(cluster: Cluster, namespace: str, path: str, template: Object) -> tuple[list[Finding], list[str]]:
    metadata = {"generateName": _NAME, "namespace": namespace}
    body = {"apiVersion": "v1", "kind": POD_TEMPLATE.kind, "metadata": metadata, "template": template}
    unknown: list[str] = []
    # A server that meets an unknown field judges nothing else, unless it is told to leave such fields out.
    for validation in ("Strict", "Ignore"):
        query = {"dryRun": "All", "fieldValidation": validation}
        try:
            await cluster.request("POST", POD_TEMPLATE.path(namespace), query=query, body=body)
        except Invalid as error:
            _, strict, fields = str((error.body or {}).get("message")).partition(_STRICT)
            if not strict or unknown:
                return _findings(path, error), unknown
            unknown = [f"{path}.{field}" for field in _UNKNOWN.findall(fields)]
        else:
            break
    return [], unknown


def _findings(path: str, error: Invalid) -> list[Finding]:
    """Returns the server's messages, with field paths of the object under review."""
    causes = ((error.body or {}).get("details") or {}).get("causes") or ()
    found = [Finding(path + each.get("field", "").removeprefix("template"), each.get("message", "")) for each in causes]
    return found or [Finding(path, str((error.body or {}).get("message") or error))]
