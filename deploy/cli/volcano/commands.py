"""Commands as vcctl makes them: objects that ask something of a Job or a Queue, and are gone when it was done."""

from typing import TYPE_CHECKING

from workers.api.kinds import COMMAND, Kind, Object, Ref

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: Where Commands for objects without a namespace are put.
NAMESPACE = "default"


def command(kind: Kind, target: Object, action: str) -> Object:
    """The Command that asks for an action of the target. It goes with its target, if nobody grants it before."""
    metadata = target["metadata"]
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "generateName": f"{metadata['name']}-{action.lower()}-",
            "namespace": metadata.get("namespace") or NAMESPACE,
            "ownerReferences": [reference],
        },
        "target": reference,
        "action": action,
    }


async def send(cluster: "Cluster", ref: Ref, action: str) -> None:
    """Ask for an action. Raises NotFound when there is no such target."""
    target: Object = await cluster.request("GET", ref.kind.path(ref.namespace, ref.name))
    wish = command(ref.kind, target, action)
    await cluster.request("POST", COMMAND.path(wish["metadata"]["namespace"]), body=wish)
