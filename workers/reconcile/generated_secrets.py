"""What a plan asks to be made afresh for an object, and never holds itself."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from workers.api.kinds import Object, ref_of
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, NotFound
from workers.reconcile import keypairs
from workers.reconcile.plan import Create


async def minted(step: Create, cluster: Cluster, ours: Callable[[Object], bool]) -> Create | None:
    """The step with what had to be made for it; None when the object is there and ours, and needs nothing.

    Raises AlreadyExists when somebody else's object has the name.
    """
    if step.generate is None:
        return step
    ref = ref_of(step.kind, step.body)
    try:
        found = await cluster.get(ref)
    except NotFound:
        # Not on the event loop: looking for primes takes a tenth of a second, now and then a whole one.
        texts = await asyncio.to_thread(keypairs.make)
        return replace(step, body={**step.body, "stringData": {**step.body.get("stringData", {}), **texts}})
    if not ours(found):
        raise AlreadyExists(f"{ref} exists and belongs to somebody else", status=409)
    return None
