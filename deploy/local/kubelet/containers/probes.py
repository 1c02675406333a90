"""Startup, liveness and readiness probes: exec, httpGet and tcpSocket, with Kubernetes' thresholds and defaults."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from deploy.local.supervisor.guard import signal_group
from workers.api import loopback_addresses
from workers.api.kinds import Object

log = logging.getLogger(__name__)

KINDS = ("startupProbe", "livenessProbe", "readinessProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket")
#: Bytes of a command's output that are read at once, and the last ones, which a failure shows.
_PART, _SHOWN = 64 * 1024, 512


class NotAsked(Exception):  # noqa: N818 - says what it is
    """A question could not be put to a container, which says nothing about its health. The message says why."""


#: Asks once; why the probe failed, or None when it succeeded. Raises NotAsked.
Check = Callable[[Object], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """Equal answers in a row, and the verdict they lead to; None before the first threshold is reached."""

    successes: int = 0
    failures: int = 0
    healthy: bool | None = None

    def count(self, success: bool, probe: Object) -> "ProbeResults":
        """The tally after one more answer."""
        successes = self.successes + 1 if success else 0
        failures = 0 if success else self.failures + 1
        healthy = self.healthy
        if successes >= probe.get("successThreshold", 1):
            healthy = True
        if failures >= probe.get("failureThreshold", 3):
            healthy = False
        return replace(self, successes=successes, failures=failures, healthy=healthy)


def unsupported(container: Object) -> str | None:
    """Names the first probe of the container that cannot be asked here, or None."""
    for name in KINDS:
        probe = container.get(name)
        if probe and not any(handler in probe for handler in _HANDLERS):
            return f"{name}: only {', '.join(_HANDLERS)} are supported on this node"
    return None


async def observe(probe: Object, check: Check, on_change: Callable[[bool, str], None], *, once: bool = False) -> None:
    """Runs a probe periodically; calls `on_change` with each new verdict and the reason of the last failure.

    once: return when the probe has succeeded (startup probes).
    """
    tally, known = ProbeResults(), None
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    while True:
        try:
            failure = await check(probe)
        except NotAsked as problem:
            log.info("a probe could not be asked", extra={"error": str(problem)})
        else:
            tally = tally.count(failure is None, probe)
            if tally.healthy is not None and tally.healthy != known:
                known = tally.healthy
                on_change(known, failure or "")
            if once and known:
                return
        await asyncio.sleep(probe.get("periodSeconds", 10))


async def ask(
    probe: Object,
    container: Object,
    *,
    env: Mapping[str, str],
    cwd: Path,
    address: str = loopback_addresses.SHARED,
    entering: Sequence[str] = (),
) -> str | None:
    """One question to the container; why it failed, or None.

    address: the pod's. entering: words before a command that run it inside the container, in its working directory.
    """
    timeout = float(probe.get("timeoutSeconds", 1))
    try:
        async with asyncio.timeout(timeout):
            if "exec" in probe:
                command = [*entering, *(probe["exec"].get("command") or ())]
                return await execute(command, env=env, cwd=None if entering else cwd)
            if "httpGet" in probe:
                return await _get(probe["httpGet"], container, address)
            return await _connect(probe["tcpSocket"], container, address)
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except (OSError, aiohttp.ClientError, ValueError) as error:
        return str(error) or type(error).__name__


async def execute(command: list[str], *, env: Mapping[str, str], cwd: Path | None) -> str | None:
    """Runs a command beside the container; what it printed if it failed, or None. Cancelling it kills its group."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(env),
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    printed = b""
    try:
        while part := await process.stdout.read(_PART):
            printed = (printed + part)[-_SHOWN:]
        await process.wait()
    finally:
        signal_group(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            await process.wait()
    if process.returncode == 0:
        return None
    return f"exit code {process.returncode}: {printed.decode(errors='replace').strip()}"


def port(value: int | str, container: Object) -> int:
    """A port by number or by its name in the container. Raises ValueError for an unknown name."""
    if isinstance(value, int) or value.isdecimal():
        return int(value)
    for known in container.get("ports") or ():
        if known.get("name") == value:
            return int(known["containerPort"])
    raise ValueError(f"container {container['name']}: no port is named {value}")


async def _get(request: Object, container: Object, address: str) -> str | None:
    scheme = request.get("scheme", "HTTP").lower()
    path = request.get("path") or "/"
    url = f"{scheme}://{request.get('host') or address}:{port(request['port'], container)}/{path.removeprefix('/')}"
    headers = {one["name"]: one["value"] for one in request.get("httpHeaders") or ()}
    # certificates are not checked, as by the kubelet
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False, allow_redirects=False) as response,
    ):
        return None if 200 <= response.status < 400 else f"HTTP status {response.status}"


async def _connect(socket: Object, container: Object, address: str) -> str | None:
    _, writer = await asyncio.open_connection(socket.get("host") or address, port(socket["port"], container))
    writer.close()
    return None
