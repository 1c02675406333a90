"""What triggers may look up in the cluster: objects, entries of ConfigMaps and Secrets, tokens of service accounts.

Everything is read from the API server itself and kept in this process only, for a short while: no secret is ever in
the mirror, the queue or a log.
"""

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from scalers.auth.environment import from_cluster
from scalers.ttl_cache import EVER, TTLCache
from workers.api.kinds import SECRET, SERVICE_ACCOUNT, Object, Ref
from workers.client.restmapper import RESTMapper
from workers.errors import NotFound, UserError

V = TypeVar("V")

#: Seconds that a service account's token is asked for, and that it is used.
TOKEN_LIFE, TOKEN_USE = 3600, 1800

#: Seconds before a failure in which an answer counts as new all the same: of a thousand triggers that fail one after
#: the other, not each asks again.
SLACK = 1.0

#: Answers the object or raises `workers.errors.NotFound`.
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

    own_namespace, restricted: Secrets are read in that namespace only if restricted. seconds: how long an answer is
    used before the API server is asked again; what does not exist is asked for each time.
    """

    def __init__(
        self,
        get: Get = _unreachable,
        post: Post = _forbidden,
        *,
        own_namespace: str = "default",
        restricted: bool = False,
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
        self.recent = TTLCache(seconds=seconds, limit=limit, clock=clock)

    def now(self) -> float:
        """The instant that `view` takes."""
        return self.recent.now()

    def view(self, since: float = EVER) -> "LookupView":
        """Looking things up so that nothing is older than `since`: the instant at which what was known failed."""
        return LookupView(self, since)

    async def find(self, ref: Ref) -> Object | None:
        """The object, or None."""
        try:
            return await self._get(ref)
        except NotFound:
            return None

    async def entries(self, ref: Ref) -> Mapping[str, str] | None:
        """The entries of a ConfigMap or Secret, or None."""
        if self._restricted and ref.kind == SECRET and ref.namespace != self._own_namespace:
            raise UserError(f"{ref} may not be read: only Secrets of namespace {self._own_namespace} are")
        return await self._entries(ref)

    async def template(self, api_version: str, kind: str, namespace: str, name: str) -> Object:
        """The pod template of a workload; empty for one that does not exist or has none."""
        resource = await self._resources.find(api_version, kind)
        body = await self.find(Ref(resource.kind, namespace, name)) if resource else None
        template: Object = ((body or {}).get("spec") or {}).get("template") or {}
        return template

    async def token(self, namespace: str, account: str) -> str | None:
        """A fresh token of a service account, or None if there is no such account."""
        spec = {"expirationSeconds": TOKEN_LIFE}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self._post("POST", SERVICE_ACCOUNT.path(namespace, account, "token"), body=request)
        except NotFound:
            return None
        return str(answer["status"]["token"])


@dataclass(frozen=True, slots=True)
class LookupView:
    """Lookups, none of whose answers is older than `since`, but for a moment."""

    lookups: Lookups
    since: float

    async def entries(self, ref: Ref) -> Mapping[str, str] | None:
        """The entries of a ConfigMap or Secret, or None. Raises UserError for a Secret that may not be read."""
        return await self.remembered((ref, "entries"), lambda: self.lookups.entries(ref))

    async def template(self, api_version: str, kind: str, namespace: str, name: str) -> Object:
        """The pod template of a workload; empty for one that does not exist or has none."""
        key = ("template", api_version, kind, namespace, name)
        return await self.remembered(key, lambda: self.lookups.template(api_version, kind, namespace, name))

    async def token(self, namespace: str, account: str) -> str | None:
        """A token of a service account that is good for half an hour at least, or None without such an account."""
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
        """Any other answer, as `scalers.ttl_cache.TTLCache.get` remembers it.

        slack: seconds that it may be older than `since`.
        """
        return await self.lookups.recent.get(key, ask, since=self.since - slack, seconds=seconds)
