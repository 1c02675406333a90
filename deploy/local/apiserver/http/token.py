"""The home's token, whose owner may do everything."""

import secrets
from pathlib import Path

from deploy.local import private_files

#: Paths that a health check may ask for without a token: they show nothing of the objects.
OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version"})


def token(path: Path) -> str:
    """Returns the token in this file; makes a new one when there is none. The file is readable by its owner only.

    Raises UserError if others may have read or written it.
    """
    if found := (private_files.read(path) or "").strip():
        return found
    made = secrets.token_urlsafe(32)
    private_files.write(path, made + "\n")
    return made
