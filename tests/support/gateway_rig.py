"""A gateway on a socket of loopback, with a real broker and without a cluster."""

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import redis.asyncio as redis
from starlette.applications import Starlette

from deploy.processes import gateway as process
from deploy.processes import https
from scalers.auth.lookups import Lookups
from scalers.deliveries.deliveries import Deliveries
from scalers.gateway.asgi_app import GatewayApp
from scalers.gateway.auth.push_authenticator import PushAuthenticator
from scalers.gateway.auth.replay_guard import ReplayGuard
from scalers.gateway.auth.token_reviews import TokenReviews
from scalers.gateway.destinations import Destinations
from scalers.gateway.event_status import EventStatus
from scalers.gateway.group_commit import GroupCommit
from scalers.gateway.overload import Load
from scalers.gateway.push_handler import PushHandler
from scalers.triggers.parse import Triggers
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support import broker_clock
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Object, Ref
from workers.cache.store import ObjectVersion, Store
from workers.client.rest import Cluster
from workers.errors import NotFound, Unavailable

KEYS = Keys("test")
_versions = itertools.count(1)


@dataclass
class GatewayRig:
    """url: of the gateway. secrets: by namespace/name, entries of Secrets. away: the API server does not answer."""

    client: redis.Redis
    broker: str
    url: str = ""
    secrets: dict[str, Mapping[str, str]] = field(default_factory=dict)
    away: bool = False
    http: aiohttp.ClientSession = field(init=False)
    load: Load = field(default_factory=Load)
    notified: list[Mapping[str, int]] = field(default_factory=list)
    gateway: process.Gateway = field(init=False)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def store(self) -> Store:
        """The store, as a worker writes it."""
        return Store(self.client, KEYS, {})

    async def list_nothing(self) -> None:
        """Lets the store know that the cluster has no object yet."""
        for kind in (EVENT_JOB, SCALED_JOB):
            listing = await self.store.begin(kind, 1)
            await self.store.finish(listing, {"": "0"})
            await self.store.touch(kind, 1, await broker_clock.now(self.client))

    async def put(self, kind: Any, name: str, namespace: str = "team", **spec: Any) -> None:
        """Stores an object of this spec."""
        version = str(next(_versions))
        metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "resourceVersion": version}
        body: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        await self.store.apply(kind, [ObjectVersion(body)])

    async def event_job(self, name: str, namespace: str = "team", **spec: Any) -> None:
        """Stores an EventJob, which everybody may push to unless the spec says otherwise."""
        template = {"spec": {"template": {"spec": {"containers": []}}}}
        await self.put(EVENT_JOB, name, namespace, **{"jobTemplate": template, "push": {"anonymous": True}, **spec})

    async def scaled_job(self, name: str, namespace: str = "team", **metadata: str) -> None:
        """Stores a ScaledJob with a push trigger of this metadata."""
        triggers = [{"type": "push", "metadata": metadata}]
        target = {"template": {"spec": {"containers": [{"name": "main"}]}}}
        await self.put(SCALED_JOB, name, namespace, triggers=triggers, jobTargetRef=target, push={"anonymous": True})

    async def push(self, path: str, **more: Any) -> tuple[int, Any, Mapping[str, str]]:
        """Posts to a target; returns status, JSON and headers."""
        return await self.ask("POST", f"/events/{path}", **more)

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any, Mapping[str, str]]:
        """Makes a request; returns status, JSON or text, and headers."""
        async with self.http.request(method, self.url + path, **more) as response:
            kind = response.headers.get("Content-Type", "")
            return (
                response.status,
                await (response.json(content_type=None) if "json" in kind else response.text()),
                response.headers,
            )

    async def accepted(self, name: str, namespace: str = "team") -> list[dict[str, str]]:
        """The accepted events of a channel."""
        entries = await self.client.xrange(f"{KEYS.tag}:events:{namespace}/{name}:accepted")
        return [{key.decode(): text.decode() for key, text in fields.items()} for _, fields in entries]

    async def get(self, ref: Ref) -> Object:
        """Reads a Secret, as the API server would give it."""
        if self.away:
            raise Unavailable("the API server does not answer")
        entries = self.secrets.get(f"{ref.namespace}/{ref.name}")
        if entries is None:
            raise NotFound(f"{ref} does not exist")
        return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in entries.items()}}

    async def request(self, *_: Any, **__: Any) -> Any:
        """Answers no review."""
        raise Unavailable("the API server does not answer")

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Takes notifications."""
        self.notified.append(notifications)


@asynccontextmanager
async def gateway_rig(
    broker: str, client: redis.Redis, *, certificates: Any = None, cluster: Cluster | None = None
) -> AsyncIterator[GatewayRig]:
    """A running gateway. cluster: has the Secrets and accounts; without one the rig has them."""
    rig = GatewayRig(client, broker)
    poll = Lane(client, "poll", KEYS)
    await poll.open()
    await rig.list_nothing()
    destinations = Destinations(rig.store, KEYS, Triggers(broker=broker, prefix=KEYS.prefix))
    commit = GroupCommit(client, poll, rig.notify)
    get, request = (cluster.get, cluster.request) if cluster else (rig.get, rig.request)
    lookups = Lookups(get, request, own_namespace="penstock")
    handler = PushHandler(
        destinations=destinations,
        authenticator=PushAuthenticator(lookups, TokenReviews(request), ReplayGuard(client, KEYS.prefix)),
        commit=commit,
        status=EventStatus(destinations, Deliveries(client, KEYS), commit.client_of),
        load=rig.load,
    )
    ready = process.Readiness(client)
    rig.gateway = process.Gateway(GatewayApp(handler, ready, Starlette()), ready)
    listener = https.listen("127.0.0.1:0", "--gateway")
    scheme = "https" if certificates else "http"
    rig.url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    serving = asyncio.create_task(process.serve(rig.gateway, listener, certificates, rig.stop))
    try:
        async with aiohttp.ClientSession() as rig.http:
            yield rig
    finally:
        rig.stop.set()
        await serving
        await commit.close()
