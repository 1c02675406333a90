"""`penstock healthy`: asks this container's own process for its health. For exec probes and HEALTHCHECK.

It imports the standard library alone, and little of it: a probe every few seconds must cost next to nothing.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

#: Seconds that the process may take to answer: longer than its own checks take.
PATIENCE = 8.0

#: Addresses at which a server takes connections of all addresses, and the one of these that reaches it from here.
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def takes(arguments: Sequence[str]) -> bool:
    """Returns True for a command line that `main` understands; others have settings as flags, or ask for help."""
    return arguments[:1] == ["healthy"] and set(arguments[1:]) <= {"--ready"}


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Asks, and prints one line. Returns 0 if the process is healthy, 1 if not."""
    path = "/readyz" if "--ready" in arguments else "/healthz"
    try:
        address, tls = _address(environment)
        status, body = _ask(address, tls, path)
    except (OSError, ValueError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 1
    if status == 200:
        print("ok")
        return 0
    print(f"penstock: {path} answers {status}: {_reason(body)}", file=sys.stderr)
    return 1


def serves(address: str) -> bool:
    """Returns True if a process of Penstock, healthy or not, serves its health at HOST:PORT."""
    try:
        _, body = _ask(*_address({"PENSTOCK_HEALTH": address}), "/healthz")
        answer = json.loads(body)
    except (OSError, ValueError):
        return False
    return isinstance(answer, dict) and {"status", "passed"} <= answer.keys()


def _address(environment: Mapping[str, str]) -> tuple[tuple[str, int], bool]:
    """Returns where to ask, and if by TLS. Raises ValueError if the settings name no address."""
    gateway = environment.get("PENSTOCK_GATEWAY", "")
    gateway = "" if gateway == "off" else gateway
    health = environment.get("PENSTOCK_HEALTH", "")
    name, text = ("PENSTOCK_HEALTH", health) if health else ("PENSTOCK_GATEWAY", gateway)
    if not text:
        raise ValueError("PENSTOCK_HEALTH names no address, so no process serves its health")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"{name}: {text!r} must be HOST:PORT")
    host = host.strip("[]")
    return (_ANY.get(host, host), int(port)), not health and bool(environment.get("PENSTOCK_TLS_CERT"))


def _ask(address: tuple[str, int], tls: bool, path: str) -> tuple[int, bytes]:
    """Returns status and body. Raises OSError without an answer, and ValueError for one that is not HTTP."""
    try:
        with socket.create_connection(address, timeout=PATIENCE) as plain:
            connection = _encrypted(plain) if tls else plain
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {address[0]}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    except OSError as error:
        raise OSError(f"{address[0]}:{address[1]} does not answer: {error}") from error
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError(f"{address[0]}:{address[1]} does not speak HTTP")
    return int(words[1]), body


def _encrypted(connection: socket.socket) -> socket.socket:
    import ssl

    # This container's own certificate names its Service, not loopback.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def _reason(body: bytes) -> str:
    try:
        answer = json.loads(body)
        failed = answer.get("failed") or {}
        return "; ".join(f"{name}: {reason}" for name, reason in failed.items()) or str(answer.get("detail") or answer)
    except (ValueError, AttributeError):
        return body[:200].decode(errors="replace").strip()
