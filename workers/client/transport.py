"""The HTTP transport: sessions, lines of streamed answers, and the translation of failures into our errors.

Streams and proxies go through aiohttp, which is imported with the first of them: most commands need neither.
"""

import asyncio
import math
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import orjson
from yarl import URL

from scheduler import shared_ticks
from workers import errors
from workers.client.http_pool import ApiAnswer
from workers.client.missing_rights import missing_right

if TYPE_CHECKING:
    import aiohttp

#: Characters of a server's message that are quoted in an error.
QUOTED = 500
#: The longest wait that a server may ask for, in seconds: a mistaken one must not stop an object for a day.
MOST_RETRY_AFTER = 60.0
#: TCP keepalive in seconds: a peer that vanished is noticed after idle + interval * count.
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 10, 5, 3

_BY_STATUS: Mapping[int, type[errors.ClusterError]] = {
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.Unavailable,
    409: errors.Conflict,
    410: errors.Gone,
    429: errors.Unavailable,
}
#: Headers by which API Priority and Fairness tells where it put a request, as UIDs.
FLOW_SCHEMA, PRIORITY_LEVEL = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"
#: One value of a Warning header (RFC 7234): code, agent, quoted text, and a date that is quoted too.
_WARNING = re.compile(r'(\d{3})\s+\S+\s+"((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*(?:,\s*|$)')
#: The code of warnings that are meant for users.
_MISCELLANEOUS = "299"


def session(context: ssl.SSLContext | None = None, *, limit: int) -> "aiohttp.ClientSession":
    """A pool of at most `limit` connections (0: unbounded) that keeps no cookies.

    context: of connections whose request brings no TLS context of its own. Requests to the API server bring theirs, so
    that it can change: connections of another context are not used again. The rules for proxies are those of
    `workers.client.environment_proxies`.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(
        limit=limit, ssl=True if context is None else context, socket_factory=unconnected_socket, keepalive_timeout=60
    )
    return aiohttp.ClientSession(
        connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=1 << 20
    )


def unconnected_socket(address: Any) -> socket.socket:
    """Returns a socket for an entry of getaddrinfo, by which a peer that vanished is noticed."""
    family, type_, protocol, _, _ = address
    sock = socket.socket(family, type_, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ):
        if hasattr(socket, option):  # macOS lacks the first
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


class GeneralPool:
    """The connections of whole requests where there is more between us and the server than TLS: a proxy.

    Its interface is that of `workers.client.http_pool.HttpPool`. limit: most connections.
    """

    def __init__(self, base: str, proxy: str, limit: int) -> None:
        self._base = base
        self._proxy = proxy
        self._session = session(limit=limit)

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> ApiAnswer:
        """Sends a request and returns its whole answer. Raises aiohttp.ClientError and OSError."""
        import aiohttp

        url = URL(self._base + target, encoded=True)
        arguments = options(context, server_name, self._proxy)
        # The caller has a deadline of its own.
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            method, url, headers=headers, data=body, timeout=timeout, **arguments
        ) as response:
            return ApiAnswer(response.status, response.headers, await response.read())

    async def close(self) -> None:
        """Closes every connection."""
        await self._session.close()


def options(context: ssl.SSLContext | None, server_name: str, proxy: str) -> dict[str, Any]:
    """Returns the arguments of an aiohttp request for this way to the server."""
    # A redirect would carry credentials, impersonation and body to whatever server it names.
    arguments: dict[str, Any] = {"allow_redirects": False}
    if context is not None:
        arguments["ssl"] = context
    if proxy:
        arguments["proxy"] = proxy
    if server_name:
        arguments["server_hostname"] = server_name
    return arguments


#: Bytes of the longest line that is kept until it ends; of what a pod writes, the pieces of a longer one are lines.
LONGEST_LINE = 1 << 20


class IdleWait:
    """The wait of a quiet stream between two empty bursts. every: seconds."""

    def __init__(self, every: float) -> None:
        self.every = every
        self._timeout: asyncio.Timeout | None = None

    def cut(self) -> None:
        """Ends the wait under way: an empty burst follows what can be read."""
        if self._timeout and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def timeout(self) -> AsyncIterator[None]:
        """Raises TimeoutError when the wait ends."""
        try:
            async with asyncio.timeout(shared_ticks.until_tick(self.every)) as self._timeout:
                yield
        finally:
            self._timeout = None


async def lines(
    content: "aiohttp.StreamReader",
    *,
    idle: IdleWait,
    silence: float | None,
    partial: bool = False,
    blank: bool = False,
) -> AsyncGenerator[list[bytes], None]:
    """An answer's lines without their ends, in bursts of all that could be read at once.

    An empty burst says that nothing more can be read at this moment: one follows each run of lines (unless a line
    is still incomplete), and one comes whenever the stream is quiet for an `idle` wait. After `silence` seconds without
    a byte: `errors.Silent`. partial: hand out a last line that has no end, and pieces of lines longer than
    `LONGEST_LINE`; otherwise a last line is dropped, and every line is whole. blank: hand out empty lines too.
    """
    loop = asyncio.get_running_loop()
    heard, rest, quiet = loop.time(), b"", False
    while not content.at_eof():
        chunk = content.read_nowait()
        if not chunk and quiet:
            chunk = await _readable(content, idle)
        if chunk:
            heard = loop.time()
            *burst, rest = (rest + chunk).split(b"\n")
            quiet = False
            if partial and len(rest) > LONGEST_LINE:
                burst, rest = [*burst, rest], b""
            if burst:
                yield [line.rstrip(b"\r") for line in burst if line or blank]
            continue
        if silence is not None and loop.time() - heard > silence:
            raise errors.Silent(f"not a byte for {silence:g} s")
        quiet = True
        if not rest:
            yield []
    if partial and rest:
        yield [rest]


async def _readable(content: "aiohttp.StreamReader", idle: IdleWait) -> bytes:
    try:
        async with idle.timeout():
            return await content.readany()
    except TimeoutError:
        # Bytes and the timer may have come in the same turn of the loop.
        return content.read_nowait()


def stream_timeout(connect: float) -> "aiohttp.ClientTimeout":
    """Returns the time-out of an answer that is read for as long as it lasts. connect: seconds for the connection."""
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=connect)


def is_of_tls(error: OSError) -> bool:
    """Returns True for a failure of TLS, which other certificates may mend."""
    return isinstance(error, (ssl.SSLError, *_error_of_aiohttp("ClientSSLError")))


def _failures() -> tuple[type[BaseException], ...]:
    return (OSError, *_error_of_aiohttp("ClientError"))


def _error_of_aiohttp(name: str) -> tuple[type[BaseException], ...]:
    """Returns the class; none in a process that has not imported it, and that it can therefore not have raised."""
    library = sys.modules.get("aiohttp")
    return () if library is None else (getattr(library, name),)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turns every way of getting no answer into `errors.Unavailable`."""
    try:
        yield
    except TimeoutError as error:
        raise errors.Unavailable(f"{what}: no answer in time") from error
    except _failures() as error:
        raise errors.Unavailable(f"{what}: {str(error) or type(error).__name__}"[:QUOTED]) from error


def warnings(headers: Iterable[str]) -> list[str]:
    """Returns the texts for users of Warning headers; what is no such header is left out. Pure."""
    found = (match for header in headers for match in _WARNING.finditer(header))
    return [
        re.sub(r"\\(.)", r"\1", text) for code, text in (match.groups() for match in found) if code == _MISCELLANEOUS
    ]


def refusal(what: str, status: int, data: bytes, headers: Mapping[str, str]) -> errors.ClusterError:
    """The error for an answer of 400 or more, from the server's `Status` object or its plain text."""
    try:
        body = orjson.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"message": data.decode(errors="replace").strip()}
        if status == 429 and (level := headers.get(PRIORITY_LEVEL)):
            # API Priority and Fairness says no more than this.
            schema = headers.get(FLOW_SCHEMA, "unknown")
            body["message"] += f" (flow schema {schema}, priority level {level})"
    return refused(what, status, body, _seconds(headers.get("Retry-After")))


def is_overload(error: errors.ClusterError) -> bool:
    """Returns True if the server refused because it has too much to do, for every client.

    Its own filters say so in plain text; a `Status` with a time to wait is its storage's. Other 429s are about the
    request: an admission that denies, a disruption budget.
    """
    return error.status == 429 and (error.body is None or bool(error.retry_after))


def is_of_admission(error: errors.ClusterError) -> bool:
    """Returns True if an admission webhook failed: the API server itself has answered."""
    return error.status in (500, 504) and "webhook" in str(error)


def refused(what: str, status: int, body: dict[str, Any], retry_after: float | None = None) -> errors.ClusterError:
    """The error for a `Status` object: its class by code and reason, its message trimmed."""
    kind = _BY_STATUS.get(status) or (errors.Invalid if 400 <= status < 500 else errors.Unavailable)
    if status == 409 and body.get("reason") == "AlreadyExists":
        kind = errors.AlreadyExists
    details = body.get("details")
    if retry_after is None and isinstance(details, dict):
        retry_after = _bounded(details.get("retryAfterSeconds"))
    text = str(body.get("message") or body.get("reason") or "no message")
    lacking = missing_right(text) if status == 403 else None
    message = text[:QUOTED] + (f"; {lacking.remedy}" if lacking else "")
    return kind(
        f"{what}: {status}: {message}",
        status=status,
        body=body if body.get("kind") == "Status" else None,
        retry_after=retry_after,
    )


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header's seconds from now; it may name an instant instead."""
    if not retry_after:
        return None
    try:
        return _bounded(float(retry_after))
    except ValueError:
        pass
    try:
        return _bounded((parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _bounded(seconds: object) -> float | None:
    """Returns the seconds to wait that a server asks for; None for what is no number."""
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        return None
    return min(max(0.0, seconds), MOST_RETRY_AFTER)
