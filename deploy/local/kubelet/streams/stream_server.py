"""The kubelet's own server: one Unix socket, at which the API server asks for streams of its clients.

The answer to a request that cannot be served is a text, as of other kubelets; kubectl shows it.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from deploy.local import kubelet_socket
from deploy.local.kubelet.containers.attempt import ContainerAttempt, gone
from deploy.local.kubelet.containers.isolation import entering
from deploy.local.kubelet.pods.pod_worker import Worker
from deploy.local.kubelet.pods.recipe import Recipe
from deploy.local.kubelet.streams import attachment, channels, forwarding
from deploy.local.kubelet.streams.channels import Channels
from deploy.local.kubelet.streams.execution import Execution, ExecutionPlace, Streams
from deploy.local.supervisor import guard_restart
from deploy.local.supervisor.guard import Guard
from workers.api import loopback_addresses
from workers.cancellation import cancelled
from workers.errors import PenstockError

log = logging.getLogger(__name__)

_NO_SPDY = (
    "{what} over SPDY is not offered here: use a client that speaks WebSocket, as kubectl does since 1.31 "
    "(1.29 and 1.30 with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true)"
)
_NO_INPUT = (
    "the container has no input: it needs `stdin: true` (kubectl run --stdin) for that. Leave --stdin out, "
    "or run a command of its own with kubectl exec --stdin"
)
#: The errors of this server, with the words clients know them by.
_REFUSALS: Mapping[int, tuple[type[web.HTTPError], str]] = {
    400: (web.HTTPBadRequest, "BadRequest"),
    404: (web.HTTPNotFound, "NotFound"),
    500: (web.HTTPInternalServerError, "InternalError"),
}
#: Seconds between TERM and KILL for commands of a kubelet that has died.
_GRACE = 1.0


class StreamServer:
    """Serves streams. logs: the folder that the API server knows too. find: returns the worker of a pod by its uid."""

    def __init__(self, logs: Path, find: Callable[[str], Worker | None]) -> None:
        self._socket = kubelet_socket.path(logs)
        self._find = find
        self._guard: Guard | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self) -> None:
        """Serves until cancelled; then ends every stream. Without a socket it logs why, and serves nothing."""
        app = web.Application()
        container = "/{uid}/{container}"
        routes = {
            f"/exec{container}": self._exec,
            f"/attach{container}": self._attach,
            "/portforward/{uid}": self._forward,
        }
        app.add_routes([web.route("*", path, handler) for path, handler in routes.items()])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        keeping = asyncio.create_task(self._keep_guard())
        try:
            try:
                await web.SockSite(runner, self._listen()).start()
            except OSError as error:
                log.warning("exec, attach and port-forward are not offered", extra={"error": str(error)})
            await asyncio.Event().wait()
        finally:
            await cancelled(*self._tasks, keeping)
            await runner.cleanup()
            if self._guard is not None:
                self._guard.dismiss()

    def _listen(self) -> socket.socket:
        self._socket.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with kubelet_socket.address(self._socket) as address:
                listener.bind(address)
            # No one can connect before it listens.
            self._socket.chmod(0o600)
        except OSError:
            listener.close()
            raise
        return listener

    # -- exec and attach -----------------------------------------------------------------------------------------

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        attempt, made = await self._container(request)
        streams, command = _streams(request), request.query.getall("command", [])
        if not command:
            raise _refused(400, "command: Required value")
        socket, _ = _websocket(request, channels.PROTOCOLS)
        await attempt.begun()
        place = ExecutionPlace(made.env, attempt.work / made.cwd, entering(_pid(attempt)))
        return await self._talk(
            request, socket, lambda: self._execute(Channels(socket), attempt, command, place, streams)
        )

    async def _execute(
        self, client: Channels, attempt: ContainerAttempt, command: list[str], place: ExecutionPlace, streams: Streams
    ) -> None:
        """Runs a command until it ends, the client leaves, or its container ends and takes it along."""
        guard = self._started_guard()
        try:
            execution = Execution.start(command, place, streams)
        except (OSError, ValueError) as error:
            why = f'exec: "{command[0]}": {getattr(error, "strerror", "") or error}'
            await client.finish(channels.failed(f"error executing command in container: {why}"))
            return
        with _guarded(guard, execution.pid):
            taking = asyncio.ensure_future(execution.take_input(client))
            ending = asyncio.ensure_future(execution.exit_code(client))
            container = asyncio.ensure_future(gone(_pid(attempt), None))
            try:
                await asyncio.wait((taking, ending, container), return_when=asyncio.FIRST_COMPLETED)
                if container.done() and not ending.done():
                    execution.kill()
                    await asyncio.wait((taking, ending), return_when=asyncio.FIRST_COMPLETED)
                await cancelled(taking)
                if ending.done():
                    await client.finish(channels.ended(ending.result()))
            finally:
                await cancelled(taking, ending, container)
                await execution.close()

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        attempt, made = await self._container(request)
        streams = _streams(request)
        if streams.stdin and not made.takes_input:
            raise _refused(400, _NO_INPUT)
        socket, _ = _websocket(request, channels.PROTOCOLS)
        await attempt.begun()
        return await self._talk(request, socket, lambda: _attached(Channels(socket), attempt, streams, made.once))

    # -- port-forward --------------------------------------------------------------------------------------------

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        pod = self._worker(request).pod
        name, address = pod["metadata"]["name"], loopback_addresses.of(pod)
        # As on a real kubelet, a client that names no protocol, such as kr8s, speaks the one with channels.
        socket, protocol = _websocket(request, (forwarding.SPDY, forwarding.CHANNELS), unnamed=forwarding.CHANNELS)
        if protocol == forwarding.SPDY:
            return await self._talk(request, socket, forwarding.SpdyForwarding(socket, name, address).serve)
        try:
            ports = forwarding.ports(request.query.getall("ports", []))
        except ValueError as error:
            raise _refused(400, str(error)) from None
        return await self._talk(
            request, socket, lambda: forwarding.over_channels(Channels(socket), name, address, ports)
        )

    # -- what all have in common ---------------------------------------------------------------------------------

    def _worker(self, request: web.Request) -> Worker:
        worker = self._find(request.match_info["uid"])
        if worker is None or worker.over:
            raise _refused(404, "pod does not exist")
        return worker

    async def _container(self, request: web.Request) -> tuple[ContainerAttempt, Recipe]:
        name = request.match_info["container"]
        try:
            found = await self._worker(request).inside(name)
        except PenstockError as error:
            raise _refused(500, f"container {name}: {error}") from error
        if found is None:
            raise _refused(500, f'container not found ("{name}")')
        return found

    async def _talk(
        self, request: web.Request, socket: web.WebSocketResponse, talk: Callable[[], Coroutine[Any, Any, None]]
    ) -> web.WebSocketResponse:
        """Opens the connection, and serves a stream until it has ended or the client has gone."""
        await socket.prepare(request)
        own = asyncio.current_task()
        assert own is not None
        assert request.transport is not None
        self._tasks.add(own)
        talking = asyncio.ensure_future(talk())
        left = asyncio.ensure_future(kubelet_socket.hung_up(request.transport))
        try:
            await asyncio.wait((talking, left), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
        finally:
            await cancelled(talking, left)
            self._tasks.discard(own)
        return socket

    def _started_guard(self) -> Guard:
        """Returns the guard of commands: if this kubelet dies they end, for the next one would not know of them."""
        if self._guard is None:
            self._guard = Guard(grace=_GRACE)
        return self._guard

    async def _keep_guard(self) -> None:
        while self._guard is None:  # noqa: ASYNC110 - most kubelets never need one
            await asyncio.sleep(guard_restart.PERIOD)
        await guard_restart.keep(self._guard)


@contextmanager
def _guarded(guard: Guard, group: int) -> Iterator[None]:
    guard.add(group)
    try:
        yield
    finally:
        guard.remove(group)


async def _attached(client: Channels, attempt: ContainerAttempt, streams: Streams, once: bool) -> None:
    """Sends a container's output until it has ended or the client leaves, and gives it the client's input.

    once: the input ends with the client.
    """
    container = asyncio.ensure_future(gone(_pid(attempt), None))
    sending = asyncio.ensure_future(attachment.send_output(attempt.folder, streams, container, client))
    pipe = attempt.console
    leaving = asyncio.ensure_future(
        client.left() if pipe is None else attachment.take_input(client, pipe, streams, container, once=once)
    )
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        await cancelled(leaving)
        if sending.done():
            sending.result()
            await client.finish(channels.ended(0))
    finally:
        await cancelled(container, sending, leaving)


def _streams(request: web.Request) -> Streams:
    try:
        return Streams.of(request.query)
    except ValueError as error:
        raise _refused(400, str(error)) from None


def _websocket(
    request: web.Request, protocols: tuple[str, ...], unnamed: str | None = None
) -> tuple[web.WebSocketResponse, str]:
    """Returns a connection to be opened, with its protocol. Raises HTTPError for a client that speaks none of them.

    unnamed: the protocol of a client that names none; without it, such a client is refused.
    """
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise _refused(400, _NO_SPDY.format(what=request.path.split("/")[1]))
    socket = web.WebSocketResponse(protocols=protocols, compress=False, max_msg_size=channels.LONGEST)
    agreed = socket.can_prepare(request)
    asked = request.headers.get("Sec-WebSocket-Protocol", "")
    protocol = agreed.protocol if asked else unnamed
    if not agreed.ok or protocol is None:
        raise _refused(400, f"unable to negotiate protocol: client supports [{asked}], server accepts {[*protocols]}")
    return socket, protocol


def _refused(code: int, message: str) -> web.HTTPError:
    """Returns the refusal that kubectl shows: a text with a colon would be YAML to it."""
    error, reason = _REFUSALS[code]
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body = json.dumps({**status, "message": message, "reason": reason, "code": code})
    return error(text=body, content_type="application/json")


def _pid(attempt: ContainerAttempt) -> int:
    assert attempt.pid is not None, "it runs"
    return attempt.pid
