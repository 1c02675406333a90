"""The line of `penstock describe` about the workload that a ScaledObject scales."""

from typing import TYPE_CHECKING

from deploy.cli import output
from workers.api.kinds import Object, Ref

if TYPE_CHECKING:
    from workers.client.rest import Cluster


async def show(cluster: "Cluster", ref: Ref, body: Object) -> None:
    """Prints the workload and its wanted number of replicas, or the reason why that is unknown."""
    from workers.client.scale import Scales
    from workers.controllers.keda import scaledobject

    target = scaledobject.CONTROLLER.scales(body)
    if target is None:
        return
    scale = await Scales(cluster).read(ref.namespace, target)
    state = scale.error or f"{scale.replicas} replica{'' if scale.replicas == 1 else 's'}"
    output.say(f"Target:        {target.kind} {ref.namespace}/{target.name}: {state}")
