"""The bearer token: the only credential of the server."""

import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

#: Paths that a health check may ask for without a token: they show nothing of the objects.
OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version"})


def token(path: Path) -> str:
    """The token in this file; a new one is made when there is none. The file is readable by its owner only."""
    if path.exists() and (found := path.read_text().strip()):
        return found
    made = secrets.token_urlsafe(32)
    write_private(path, made + "\n")
    return made


def write_private(path: Path, text: str) -> None:
    """Replaces a file by one only its owner can read, all at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def allowed(headers: Mapping[str, str], expected: str) -> bool:
    """True if the request carries the token."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), expected.encode())
