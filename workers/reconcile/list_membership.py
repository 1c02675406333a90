"""Carrying out `plan.EditList`: one name in a comma separated list of another object's status."""

import logging

from workers.api.kinds import Object
from workers.client.rest import Cluster
from workers.errors import Conflict, Forbidden, Invalid, NotFound
from workers.reconcile.plan import EditList

log = logging.getLogger(__name__)

#: Attempts against others who write the same list.
ATTEMPTS = 5


async def enlist(cluster: Cluster, step: EditList) -> None:
    """Put the name into the list, or take it out; somebody else's change in between is respected.

    Raises Conflict after too many of those, and what keeps the API server from answering.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            body = await cluster.get(step.ref)
            known = names(body, step.field)
            wanted = [name for name in known if name != step.name] + ([step.name] if step.present else [])
            if set(wanted) == set(known):
                return
            patch = {
                "metadata": {"resourceVersion": body["metadata"]["resourceVersion"]},
                "status": {step.field: ",".join(sorted(wanted))},
            }
            await cluster.patch(step.ref, patch, subresource="status")
        except Conflict:
            if attempt == ATTEMPTS:
                raise
        except NotFound:
            return
        except (Forbidden, Invalid) as error:
            log.warning("a list of users is not kept", extra={"object": str(step.ref), "error": str(error)})
            return
        else:
            return


def names(body: Object, field: str) -> list[str]:
    """The names in a list, none where there is no list yet."""
    return [name for name in str((body.get("status") or {}).get(field) or "").split(",") if name]
