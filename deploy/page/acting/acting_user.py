"""Requests to the API server in the name of a page's user: with their token, and with nothing of this process."""

from typing import Any

from deploy.page.acting.page_actions import Change
from workers.api.kinds import Object, Ref
from workers.client import kubeconfig
from workers.client.rest import MERGE_PATCH, Cluster
from workers.settings import Settings


class ActingUser:
    """A client that proves itself by the token of each request only.

    An API server that is shown a client certificate may take its user instead of the token's, so the connection
    carries none.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @classmethod
    async def connect(cls, settings: Settings) -> "ActingUser":
        """Returns a client of the API server that the settings name, without this process's credentials."""
        configuration: Any = await kubeconfig.load(settings.kubeconfig, settings.context)
        configuration.cert_file = configuration.key_file = None
        configuration.api_key, configuration.api_key_prefix = {}, {}
        configuration.refresh_api_key_hook = None
        configuration.username = configuration.password = None
        return cls(Cluster(configuration, timeout=settings.timeout, in_flight=settings.in_flight))

    async def close(self) -> None:
        """Closes the connections."""
        await self._cluster.close()

    async def patch(self, token: str, ref: Ref, change: Change, uid: str) -> None:
        """Patches the object, if it is still the one of this uid. Raises `errors.ClusterError`."""
        body = {**change.patch, "metadata": {**change.patch.get("metadata", {}), "uid": uid}}
        headers = {**_bearer(token), "Content-Type": MERGE_PATCH}
        await self._cluster.request("PATCH", ref.kind.path(ref.namespace, ref.name), body=body, headers=headers)

    async def delete(self, token: str, ref: Ref, uid: str) -> None:
        """Deletes the object, if it is still the one of this uid. Raises `errors.ClusterError`."""
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        path = ref.kind.path(ref.namespace, ref.name)
        await self._cluster.request("DELETE", path, body=options, headers=_bearer(token))


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
