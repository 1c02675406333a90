"""Steps that read the cluster before they write: secrets that are generated on creation, and names in a shared list."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from workers.api.kinds import Object, ref_of
from workers.client.rest import Cluster
from workers.decision.plan import Create, EditList
from workers.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)

#: Attempts of `edit_list` against concurrent writers of the same list.
ATTEMPTS = 5


async def with_secret(step: Create, cluster: Cluster, owns: Callable[[Object], bool]) -> Create | None:
    """Returns the step with its generated secret, or None if the object exists, is ours and needs nothing.

    Raises AlreadyExists if an object that is not ours has the name.
    """
    if step.generate is None:
        return step
    ref = ref_of(step.kind, step.body)
    try:
        found = await cluster.get(ref)
    except NotFound:
        # On a thread: the search for primes takes a tenth of a second, at times a whole one, and would stop the loop.
        texts = await asyncio.to_thread(ssh_key_pair)
        return replace(step, body={**step.body, "stringData": {**step.body.get("stringData", {}), **texts}})
    if not owns(found):
        raise AlreadyExists(f"{ref} exists and belongs to somebody else", status=409)
    return None


def ssh_key_pair() -> dict[str, str]:
    """Returns a new RSA key pair as the files `id_rsa` (PKCS#1, PEM), `id_rsa.pub` and `authorized_keys`.

    Only the API server keeps it; it is never logged.
    """
    # Imported here: the library costs 7 MB, and few processes ever make a key.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return {"id_rsa": private, "id_rsa.pub": f"{public}\n", "authorized_keys": f"{public}\n"}


async def edit_list(cluster: Cluster, step: EditList) -> None:
    """Adds the name to the list or removes it; concurrent changes of other names are kept.

    Raises Conflict after `ATTEMPTS` of those, and `errors.Unavailable`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            body = await cluster.get(step.ref)
            text = str((body.get("status") or {}).get(step.field) or "")
            known = {name for name in text.split(",") if name}
            wanted = known | {step.name} if step.present else known - {step.name}
            if wanted == known:
                return
            patch = {
                "metadata": {"resourceVersion": body["metadata"]["resourceVersion"]},
                # An empty list goes, as KEDA's does.
                "status": {step.field: ",".join(sorted(wanted)) or None},
            }
            await cluster.patch(step.ref, patch, subresource="status")
        except Conflict:
            if attempt == ATTEMPTS:
                raise
        except NotFound:
            return
        except (Forbidden, Invalid) as error:
            # The list informs people; a plan does not fail for it.
            log.warning("a list of users is not kept", extra={"object": str(step.ref), "error": str(error)})
            return
        else:
            return
