"""The tokens, the authority and the address by which containers reach the API server."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from typing import Any

from deploy.local.kubelet.containers import service_variables
from deploy.local.kubelet.containers.environment import ConfigProblem, Sources
from deploy.local.kubelet.volumes import account_files
from deploy.local.kubelet.volumes.account_files import ROOT_CA, TOKEN_REQUEST
from workers.api.kinds import CONFIG_MAP, SERVICE, SERVICE_ACCOUNT, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, Forbidden, NotFound

#: Seconds of a token's life: a year, to which kube-apiserver extends those that it mounts. Files of a running container
#: are not written again.
LIFE = 365 * 24 * 3600
#: Seconds that an answer counts: the pods of one Job ask a few times, and a change is soon visible.
FRESH = 5.0


class ApiServerAccess:
    """Fetches for the pods of a cluster what is theirs. clock: monotonic seconds."""

    def __init__(self, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}
        access = cluster.access
        self._authority = access.tls.authority if access.tls else None
        #: Client libraries speak TLS with the server that the variables name, and nothing else.
        self._variables = service_variables.of_api_server(access.host) if access.tls else {}

    async def with_files(self, pod: Object, container: Object) -> tuple[Object, Object]:
        """As `account_files.with_files`. Raises ClusterError when the account cannot be known."""
        if self._authority is None or pod["spec"].get("automountServiceAccountToken") is False:
            return pod, container
        namespace, name = pod["metadata"]["namespace"], account_files.account_name(pod)
        account = await self._once(("account", namespace, name), lambda: self._account(namespace, name))
        return account_files.with_files(pod, container, account)

    async def sources(self, pod: Object, volumes: Iterable[Object], known: Sources) -> Sources:
        """Returns what is known with the tokens of these volumes and the authority's ConfigMap.

        Raises ConfigProblem if there is no such account, ClusterError when that cannot be known.
        """
        namespace, name = pod["metadata"]["namespace"], account_files.account_name(pod)
        found: dict[tuple[Kind, str], Mapping[str, bytes] | None] = dict(known)
        for audience in dict.fromkeys(account_files.audiences(volumes)):
            # A token's account is made with the first pod that has one, whether it is mounted or projected.
            await self._once(("account", namespace, name), lambda: self._account(namespace, name))
            key = ("token", namespace, name, audience)
            token = await self._once(key, lambda audience=audience: self._token(namespace, name, audience))  # type: ignore[misc]
            found[TOKEN_REQUEST, audience] = {"token": token}
        if found.get((CONFIG_MAP, ROOT_CA), b"") is None and self._authority is not None:
            found[CONFIG_MAP, ROOT_CA] = {"ca.crt": self._authority}
        return found

    async def variables(self, pod: Object) -> Mapping[str, str]:
        """Returns the variables of API server and Services. Raises ClusterError when these cannot be known."""
        if pod["spec"].get("enableServiceLinks") is False:
            return self._variables
        namespace = pod["metadata"]["namespace"]
        services = await self._once(("services", namespace), lambda: self._cluster.list(SERVICE, namespace))
        return {**service_variables.of_services(services[0]), **self._variables}

    async def _account(self, namespace: str, name: str) -> Object | None:
        ref = Ref(SERVICE_ACCOUNT, namespace, name)
        try:
            return await self._cluster.get(ref)
        except NotFound:
            if name != "default":
                return None
        # On other clusters a controller makes it with each namespace.
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}}
        try:
            return await self._cluster.create(SERVICE_ACCOUNT, body)
        except AlreadyExists:
            return await self._cluster.get(ref)
        except (Forbidden, NotFound):
            # The namespace is going.
            return None

    async def _token(self, namespace: str, name: str, audience: str) -> bytes:
        spec = {"expirationSeconds": LIFE, "audiences": [audience] if audience else []}
        path = SERVICE_ACCOUNT.path(namespace, name, "token")
        try:
            made = await self._cluster.request(
                "POST",
                path,
                body={"apiVersion": TOKEN_REQUEST.api_version, "kind": TOKEN_REQUEST.kind, "spec": spec},
            )
        except NotFound:
            raise ConfigProblem(f'serviceaccount "{name}" not found') from None
        return str(made["status"]["token"]).encode()

    async def _once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Returns the answer to a question that all ask who begin within `FRESH` seconds."""
        now = self._clock()
        self._known = {known: entry for known, entry in self._known.items() if now - entry[0] < FRESH}
        if key not in self._known:
            task = asyncio.create_task(ask())
            self._known[key] = (now, task)
            task.add_done_callback(lambda ended: self._forget_failure(key, ended))
        # Shielded: one pod that is stopped must not take the answer from the others.
        return await asyncio.shield(self._known[key][1])

    def _forget_failure(self, key: Hashable, ended: "asyncio.Task[Any]") -> None:
        if ended.cancelled() or ended.exception() is not None:
            self._known.pop(key, None)
