"""Lookups of triggers in the cluster: objects, entries of ConfigMaps and Secrets, tokens of service accounts.

Everything is read from the API server itself and cached in this process only, for a short while: no secret ever enters
the store, the queue or a log.
"""

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from scalers.auth.template_environment import from_cluster
from scalers.ttl_cache import EVER, TTLCache
from workers.api.kinds import SECRET, SERVICE_ACCOUNT, Object, Ref
from workers.client.restmapper import RESTMapper
from workers.errors import NotFound, UserError

V = TypeVar("V")

#: Seconds for which a service account's token is requested, and for which it is used.
TOKEN_LIFE, TOKEN_USE = 3600, 1800

#: Age (seconds) at a failure up to which an answer still counts as new: a thousand triggers that fail one after the
#: other make one request.
SLACK = 1.0

#: Returns the object or raises `workers.errors.NotFound`.
Get = Callable[[Ref], Awaitable[Object]]


class Post(Protocol):
    """`workers.client.rest.Cluster.request`."""

    def __call__(self, method: str, path: str, *, body: Any = None) -> Awaitable[Any]: ...


async def _unreachable(ref: Ref) -> Object:
    raise UserError(f"{ref} cannot be read here")


async def _forbidden(method: str, path: str, *, body: Any = None) -> Any:  # noqa: ARG001 - as Post has it
    raise UserError(f"{method} {path} is not possible here")


class Lookups:
    """Reads the cluster for triggers.

    own_namespace, restricted: if restricted, Secrets are read in that namespace only. cluster_scoped: False where kinds
    without namespaces are not read. seconds: time to live of an
    answer; a missing object is requested each time.
    """

    def __init__(
        self,
        get: Get = _unreachable,
        post: Post = _forbidden,
        *,
        own_namespace: str = "default",
        restricted: bool = False,
        cluster_scoped: bool = True,
        seconds: float = 30.0,
        limit: int = 5_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get = get
        self._entries = from_cluster(get)
        self._post = post
        self._resources = RESTMapper(post)
        self._own_namespace = own_namespace
        self._restricted = restricted
        self._cluster_scoped = cluster_scoped
        self.cache = TTLCache(seconds=seconds, limit=limit, clock=clock)

    def now(self) -> float:
        """Returns the instant that `view` takes."""
        return self.cache.now()

    def view(self, since: float = EVER) -> "LookupView":
        """Returns lookups whose answers are not older than `since`, the instant of the last failed measurement."""
        return LookupView(self, since)

    async def find(self, ref: Ref) -> Object | None:
        """Returns the object, or None. Raises UserError for one that this installation does not read."""
        if not (self._cluster_scoped or ref.kind.namespaced):
            raise UserError(
                f"{ref} is not read: this installation serves single namespaces (PENSTOCK_CLUSTER_SCOPED=false), "
                "where a TriggerAuthentication does the same"
            )
        try:
            return await self._get(ref)
        except NotFound:
            return None

    async def entries(self, ref: Ref) -> Mapping[str, str] | None:
        """Returns the entries of a ConfigMap or Secret, or None."""
        if self._restricted and ref.kind == SECRET and ref.namespace != self._own_namespace:
            raise UserError(f"{ref} may not be read: only Secrets of namespace {self._own_namespace} are")
        return await self._entries(ref)

    async def template(self, api_version: str, kind: str, namespace: str, name: str) -> Object:
        """Returns the pod template of a workload; empty if it does not exist or has none."""
        resource = await self._resources.find(api_version, kind)
        body = await self.find(Ref(resource.kind, namespace, name)) if resource else None
        template: Object = ((body or {}).get("spec") or {}).get("template") or {}
        return template

    async def token(self, namespace: str, account: str) -> str | None:
        """Returns a new token of a service account, or None if it does not exist."""
        spec = {"expirationSeconds": TOKEN_LIFE}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self._post("POST", SERVICE_ACCOUNT.path(namespace, account, "token"), body=request)
        except NotFound:
            return None
        return str(answer["status"]["token"])


@dataclass(frozen=True, slots=True)
class LookupView:
    """Cached lookups with answers not older than `since`, up to the slack."""

    lookups: Lookups
    since: float

    async def entries(self, ref: Ref) -> Mapping[str, str] | None:
        """Returns the entries of a ConfigMap or Secret, or None. Raises UserError for a Secret that may not be read."""
        return await self.remembered((ref, "entries"), lambda: self.lookups.entries(ref))

    async def template(self, api_version: str, kind: str, namespace: str, name: str) -> Object:
        """Returns the pod template of a workload; empty if it does not exist or has none."""
        key = ("template", api_version, kind, namespace, name)
        return await self.remembered(key, lambda: self.lookups.template(api_version, kind, namespace, name))

    async def token(self, namespace: str, account: str) -> str | None:
        """Returns a token of a service account, valid for half an hour at least, or None if it does not exist."""
        key = (Ref(SERVICE_ACCOUNT, namespace, account), "token")
        return await self.remembered(key, lambda: self.lookups.token(namespace, account), lambda _: TOKEN_USE)

    async def remembered(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[V]],
        seconds: Callable[[V], float] | None = None,
        *,
        slack: float = SLACK,
    ) -> V:
        """Returns any other answer, cached as by `scalers.ttl_cache.TTLCache.get`.

        slack: seconds that it may be older than `since`.
        """
        return await self.lookups.cache.get(key, ask, since=self.since - slack, seconds=seconds)
