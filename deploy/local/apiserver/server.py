"""Running the server: the store behind it, the files its clients need, and an orderly end."""

import asyncio
import base64
import ipaddress
import json
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import uvicorn
import yaml

from deploy.local import kubelet_socket, private_files
from deploy.local.apiserver.access.access_control import AccessControl
from deploy.local.apiserver.admission import pod_priorities
from deploy.local.apiserver.app import ApiApp
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery import crd_conditions
from deploy.local.apiserver.discovery.api_resources import ResourceRegistry
from deploy.local.apiserver.garbage_collector import Collector
from deploy.local.apiserver.http import certificate
from deploy.local.apiserver.http import token as auth
from deploy.local.apiserver.http.upgrades import Upgrades
from deploy.local.apiserver.storage.object_store import ObjectStore, ObjectStoreKeys
from deploy.local.apiserver.storage.watch_streams import Hub
from deploy.local.image_commands import Images
from deploy.processes import https
from scheduler.broker import clients
from workers.admission import admission_options as admission
from workers.api import times
from workers.api.kinds import PRIORITY_CLASS, Object
from workers.errors import UserError
from workers.runtime import free_memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options. store: URL of a Redis server. port: 0 takes that of the last run if it is free, else any.

    ready: a file that is written, with the URL in it, once requests are answered. tls: folder of the certificates;
    without one the kubeconfig's folder. gangs: schedulers whose pods are held back until their gang is admitted, none
    where gangs are not admitted; pod_scheduler: the scheduler they get instead. images: entries for the commands of
    images, beside the well-known ones.
    """

    store: str
    token_file: Path
    kubeconfig: Path
    logs: Path
    host: str = "127.0.0.1"
    port: int = 0
    ready: Path | None = None
    tls: Path | None = None
    prefix: str = "penstock"
    gangs: tuple[str, ...] = ()
    pod_scheduler: str = "default-scheduler"
    images: Sequence[str] = ()

    @property
    def admission(self) -> admission.AdmissionOptions:
        """The settings of the rules of Volcano's kinds."""
        if not self.gangs:
            return admission.AdmissionOptions(gangs=False)
        return admission.AdmissionOptions(self.gangs, self.pod_scheduler)


def loopback(host: str) -> str:
    """The host, if it is an address that only this machine can reach."""
    try:
        if ipaddress.ip_address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise UserError(f"--host {host}: the embedded API server listens on a loopback address only (127.0.0.1 or ::1)")


def listen(host: str, port: int, last: int = 0) -> socket.socket:
    """A listening socket on this port; for port 0 on the last one if it is free, else on any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port,) if port else (last, 0):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, wanted))
        except OSError as error:
            listener.close()
            if port:
                raise UserError(f"--port {port}: {error.strerror}") from error
            continue
        listener.listen(1024)
        listener.setblocking(False)
        return listener
    raise UserError(f"no free port on {host}")


def last_port(kubeconfig: Path) -> int:
    """The port a kubeconfig of an earlier run names, 0 when there is none."""
    try:
        found = yaml.safe_load(kubeconfig.read_text())
        return urlsplit(found["clusters"][0]["cluster"]["server"]).port or 0
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError):
        return 0


def kubeconfig(url: str, authority: Path, token: str) -> str:
    """The text of a kubeconfig for this server. JSON, which is YAML too."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode()}
    name = "penstock"
    body: Mapping[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return json.dumps(body, indent=2) + "\n"


async def prepare(ctx: Context) -> None:
    """Makes the namespaces and PriorityClasses every cluster has."""
    wanted = [("namespaces", _namespace(name)) for name in ("default", "kube-system")]
    wanted += [(PRIORITY_CLASS.id, pod_priorities.system_class(name)) for name in pod_priorities.SYSTEM]
    waiting = []
    for resource, body in wanted:
        key = f"/{body['metadata']['name']}"
        if ctx.store.latest(resource, key) is None:
            made = {"uid": str(uuid4()), "creationTimestamp": times.render(ctx.now())}
            waiting.append(ctx.put(resource, key, {**body, "metadata": {**body["metadata"], **made}}))
    await asyncio.gather(*waiting)


def _namespace(name: str) -> Object:
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
    return {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


class _ApiServer(https.EventDrivenServer):
    """The server, which says when it answers, and ends the watches first: it waits for answers, they would not end."""

    def __init__(self, config: uvicorn.Config, hub: Hub, upgrades: Upgrades, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._upgrades = upgrades
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.close()
        await self._upgrades.close()
        hanging_up = asyncio.create_task(self._hang_up())
        await super().shutdown(sockets)
        hanging_up.cancel()

    async def _hang_up(self) -> None:
        """Drops connections that are closed but whose clients, idle, do not answer TLS's goodbye."""
        while True:
            await asyncio.sleep(0.1)
            for connection in list(self.server_state.connections):
                transport = connection.transport
                if transport.is_closing():
                    transport.abort()


async def _until_displaced(server: uvicorn.Server, store: ObjectStore) -> None:
    """Writes batches; when another server takes the store over, this one ends."""
    try:
        await store.run()
    finally:
        server.should_exit = True


async def serve(options: ServerOptions) -> None:
    """Serves until a signal comes. Raises UserError for wrong options, Displaced when another server took over."""
    listener = listen(loopback(options.host), options.port, last_port(options.kubeconfig))
    host, port = listener.getsockname()[:2]
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = auth.token(options.token_file)
    files = certificate.ensure(options.tls or options.kubeconfig.parent)
    async with clients.client(options.store) as client:
        store = ObjectStore(client, ObjectStoreKeys(options.prefix))
        await store.load()
        registry = ResourceRegistry()
        crd_conditions.follow(store, registry)
        images = Images.of(options.images)
        access = AccessControl(store, token)
        ctx = Context(store, Hub(store), registry, options.logs, access, admission=options.admission, images=images)
        app = ApiApp(ctx)
        upgrades = Upgrades(kubelet_socket.path(options.logs), app.upgrade)
        tls: dict[str, Any] = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
        config = https.configured(app, upgrades.protocol, **tls)
        server = _ApiServer(config, ctx.hub, upgrades, lambda: _announce(options.ready, url))
        writer = asyncio.create_task(_until_displaced(server, store))
        collector = Collector(ctx)
        collecting = asyncio.create_task(collector.run())
        counting = asyncio.create_task(ctx.quotas.run())
        freeing = asyncio.create_task(free_memory.keep_giving_back())
        aging = asyncio.create_task(ctx.hub.keep_aging())
        try:
            await prepare(ctx)
            private_files.write(options.kubeconfig, kubeconfig(url, files.authority, token))
            await server.serve(sockets=[listener])
        finally:
            for task in (collecting, counting, freeing, aging, writer):
                task.cancel()
            for task in (collecting, counting, freeing, aging, writer):
                with suppress(asyncio.CancelledError):
                    await task


def _announce(ready: Path | None, url: str) -> None:
    """Writes the ready file: requests are answered from now on."""
    log.info("serving", extra={"url": url})
    if ready is not None:
        private_files.write(ready, url + "\n")
