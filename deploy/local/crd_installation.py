"""Our CRDs in a cluster: stored there, or named where they are missing."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from deploy.local.parts import UpOptions
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, Forbidden, NotFound, UserError

#: Seconds that the cluster may take to serve a kind after its definition was stored.
ESTABLISHING = 15.0


async def define(options: UpOptions, kubeconfig: Path | None) -> None:
    """Stores our CRDs in the cluster, or raises UserError naming those that it lacks."""
    from workers.api import crds

    settings = options.settings
    definitions = crds.all_crds(volcano=options.own_cluster or settings.volcano)
    cluster = await Cluster.connect(
        kubeconfig=kubeconfig, context=settings.context, timeout=settings.timeout, in_flight=settings.in_flight
    )
    try:
        if options.own_cluster or options.install_crds:
            await install(cluster, definitions)
        elif lacking := await missing(cluster, definitions):
            raise UserError(
                f"the cluster lacks these CRDs: {', '.join(lacking)}; install them with --install-crds, "
                "or with `penstock crds | kubectl apply -f -`"
            )
    except Forbidden as error:
        raise UserError(f"the cluster ({kubeconfig or 'KUBECONFIG'}) refuses this user: {error}") from error
    finally:
        await cluster.close()


async def install(cluster: Cluster, definitions: Sequence[Object]) -> None:
    """Store the definitions and wait until their kinds are served."""
    for definition in definitions:
        try:
            await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition)
        except AlreadyExists:
            name = definition["metadata"]["name"]
            await cluster.patch(Ref(CUSTOM_RESOURCE_DEFINITION, "", name), {"spec": definition["spec"]})
    deadline = asyncio.get_running_loop().time() + ESTABLISHING
    while lacking := await missing(cluster, definitions):
        if asyncio.get_running_loop().time() > deadline:
            raise UserError(f"the cluster does not serve {', '.join(lacking)} {ESTABLISHING:g} s after their CRDs")
        await asyncio.sleep(0.1)


async def missing(cluster: Cluster, definitions: Sequence[Object]) -> list[str]:
    """The names of those definitions whose kinds the cluster does not serve. Asks discovery, which needs no rights."""
    lacking = []
    for definition in definitions:
        spec = definition["spec"]
        paths = [f"/apis/{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]
        answers = await asyncio.gather(*(_resources(cluster, path) for path in paths))
        if not all(spec["names"]["plural"] in names for names in answers):
            lacking.append(definition["metadata"]["name"])
    return lacking


async def serves(cluster: Cluster, kind: Kind) -> bool:
    """Returns True if the cluster serves the kind in its version. Asks discovery, which needs no rights."""
    return kind.plural in await _resources(cluster, f"/apis/{kind.api_version}")


async def _resources(cluster: Cluster, path: str) -> set[str]:
    try:
        answer = await cluster.request("GET", path)
    except NotFound:
        return set()
    return {entry["name"] for entry in answer.get("resources") or ()}
